"""The table `events`, which the job `events` writes and other jobs read."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_analytics.tables.catalog import TablesRefused
from spark_analytics.tables.lake import Lake

TABLE: Final = "events"
FRONTIERS: Final = "frontiers"


@dataclass(frozen=True)
class EventsTable:
    """A batch of the stream takes at most `max_per_batch` rows, up to a whole file; None: as many
    as there are."""

    lake: Lake
    max_per_batch: int | None = None
    own: Lake | None = None
    """The tables of the job that reads."""

    def __post_init__(self) -> None:
        if not self.lake.exists(TABLE):
            raise TablesRefused(
                f"{self.lake.place} has no table {TABLE}; run inorder spark run events with the"
                " same --out and --to first"
            )

    def stream(self) -> DataFrame:
        return _marked(self.lake.stream(TABLE, self.max_per_batch))

    def rows(self, spark: SparkSession | None = None) -> DataFrame:
        return _marked(self.lake.read(TABLE, spark))

    def complete(self) -> dict[str, datetime]:
        if not self.lake.exists(FRONTIERS):
            return {}
        rows = self.lake.read(FRONTIERS).where("complete IS NOT NULL")
        return {row.stream: row.complete for row in rows.select("stream", "complete").collect()}

    def own_table(self, table: str, spark: SparkSession) -> DataFrame | None:
        if self.own is None or not self.own.exists(table):
            return None
        return self.own.read(table, spark)


def _marked(events: DataFrame) -> DataFrame:
    """As decoded events are marked: `late` is the reason, empty where in order. So it is already in
    a table that was written before there was a column for it."""
    if "reason" not in events.columns:
        return events
    return events.withColumn("late", F.coalesce("reason", F.lit(""))).drop("reason")
