"""Write the tables of jobs to Iceberg or Delta (an output of `spark_analytics.jobs.outputs`).

A table whose rows replace one another is written by MERGE. Any other table is appended to, once per
batch. An empty batch makes no commit unless it is the first, which creates the table. A bounded run
replaces the rows of the previous run.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType, TimestampType

from spark_analytics.jobs.outputs import persist
from spark_analytics.jobs.work import Part, Table
from spark_analytics.tables.catalog import TablesRefused
from spark_analytics.tables.lake import Lake, Mark
from spark_analytics.tables.shapes import SHAPES, Shape

TIMES: Final = ("ref_time", "start_time", "timestamp")
"""The columns that may determine the day of a row; the first that a table has is used."""


def lake_name(table: str) -> str:
    """Return the table's name in lower case, with `_` for all but ASCII letters and digits."""
    return re.sub(r"[^a-z0-9_]", "_", table.lower())


class LakeOutput:
    """An output that writes the tables of a job to a lake.

    `tables` are the job's tables. They state which tables replace rows, and by which column.
    """

    def __init__(self, lake: Lake, tables: Sequence[Table], *, bounded: bool = False) -> None:
        self.lake = lake
        self._bounded = bounded
        self._parts = {part.name: part for table in tables for part in table.list_written()}
        # Rows of parts come from persisted rows, so checking whether there are any is cheap.
        self._kept = {part.name for table in tables for part in table.all_parts}
        names = list(map(lake_name, self._parts))
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise TablesRefused(f"two tables would be called {twice[0]}; rename a stream")

    def write(self, rows: DataFrame, table: str, keys: Sequence[str], batch: int) -> None:
        name, part = lake_name(table), self._parts[table]
        shape = _shape(name, rows.schema, keys, part)
        if self._bounded:
            self.lake.replace(name, rows, shape)
            return
        if part.newer is not None:
            self.lake.merge(name, rows, shape)
            return
        with nullcontext(rows) if table in self._kept else persist(rows) as kept:
            if batch == 0 or not kept.isEmpty():
                self.lake.append(name, kept, shape, Mark(table, batch))

    def has_batches(self, spark: SparkSession, table: str) -> bool:
        return self.lake.exists(lake_name(table))


def _shape(name: str, schema: StructType, keys: Sequence[str], part: Part) -> Shape:
    if part.shape is not None:
        return part.shape
    if name in SHAPES and set(SHAPES[name].keys) <= set(schema.fieldNames()):
        return replace(SHAPES[name], settled=part.settled or SHAPES[name].settled)
    if part.settled is not None:
        by, time = part.settled.by, part.settled.time
        return Shape(keys, (by,), None, (by, time), part.newer, part.settled)
    times = [
        each
        for each in TIMES
        if each in schema.fieldNames() and isinstance(schema[each].dataType, TimestampType)
    ]
    day_of = times[0] if times else None
    order = dict.fromkeys(["stream", *times[:1], *keys])
    return Shape(keys, ("stream",), day_of, list(order), part.newer)
