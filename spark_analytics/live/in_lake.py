"""Define the tables of a live job in Iceberg and Delta: those of a backfill, and `overtaken`.

A batch has a number and is appended once to each table of lines. A result replaces the one with the
same id and a lower revision. Writing a batch again therefore changes nothing
(`spark_analytics.tables.output`).
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame

from spark_analytics.backfill.in_lake import LakeTable, lake_tables
from spark_analytics.jobs.work import Part
from spark_analytics.live.line_tables import KEYS, OVERTAKEN, select_table
from topology.config import Topology

COLUMNS: Final = 4
"""The version of the tables' columns; raise it when they change, so older checkpoints are refused.
"""


def lake_parts(topology: Topology) -> list[Part]:
    """Return the tables to write from a query whose rows are output lines."""
    found = [_part(table) for table in lake_tables(topology)]
    return [*found, Part(OVERTAKEN, KEYS, select_table(OVERTAKEN))]


def _part(table: LakeTable) -> Part:
    shape = table.shape

    def pick(rows: DataFrame) -> DataFrame:
        return table.made(lambda kind: select_table(kind)(rows))

    newer = shape.newer if table.merged else None
    kinds, folds = table.kinds, table.merged
    return Part(table.name, shape.keys, pick, newer, kinds=kinds, shape=shape, folds=folds)
