"""Which task takes which rows.

Spark deals rows to tasks by the hash of a column, so the column has to hold what hashes to the task
that is meant: whole numbers are tried until each task has one.

Proved by: tests/spark_analytics/backfill/test_backfill.py
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

TRIED: Final = 32
"""Whole numbers for each task, at first; twice as many as long as one has none."""


def slots(spark: SparkSession, tasks: int) -> list[int]:
    """For each task a whole number whose row Spark gives to it."""
    found: dict[int, int] = {}
    tried = TRIED * tasks
    while len(found) < tasks:
        dealt = F.expr(f"pmod(hash(cast(id AS INT)), {tasks})")
        rows = spark.range(0, tried, 1, 1).select("id", dealt.alias("task")).collect()
        found = {row["task"]: row["id"] for row in rows}
        tried *= 2
    return [found[task] for task in range(tasks)]
