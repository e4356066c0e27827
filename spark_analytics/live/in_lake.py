"""The tables of a live job in Iceberg and Delta: those of a backfill there.

A batch is appended to each table of lines once, known by its number, and results are merged by
their ids where the revision is higher, so that a batch that is written again changes nothing
(`spark_analytics.tables.output`). `overtaken` comes beside them.

Proved by: tests/spark_analytics/live/test_live.py
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame

from spark_analytics.backfill.in_lake import LakeTable, lake_tables
from spark_analytics.live.told import KEYS, OVERTAKEN, picked
from spark_analytics.work import Part
from topology.config import Topology

COLUMNS: Final = 2
"""Raised when these tables get other columns: the checkpoint of earlier ones is refused."""


def lake_parts(topology: Topology) -> list[Part]:
    """The tables, for a query whose rows are lines."""
    found = [_part(table) for table in lake_tables(topology)]
    return [*found, Part(OVERTAKEN, KEYS, picked(OVERTAKEN))]


def _part(table: LakeTable) -> Part:
    shape = table.shape

    def pick(rows: DataFrame) -> DataFrame:
        return table.made(lambda kind: picked(kind)(rows))

    newer = shape.newer if table.merged else None
    kept = shape.settled, table.kinds, shape
    return Part(table.name, shape.keys, pick, newer, *kept, folds=table.merged)
