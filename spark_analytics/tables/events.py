"""The table `events`, which the job `events` writes and other jobs read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from spark_analytics.tables.catalog import TablesRefused
from spark_analytics.tables.lake import Lake

TABLE: Final = "events"


@dataclass(frozen=True)
class EventsTable:
    """A batch of the stream takes at most `max_per_batch` rows, up to a whole file; None: as many
    as there are."""

    lake: Lake
    max_per_batch: int | None = None

    def __post_init__(self) -> None:
        if not self.lake.exists(TABLE):
            raise TablesRefused(
                f"{self.lake.place} has no table {TABLE}; run inorder spark run events with the"
                " same --out and --to first"
            )

    def stream(self) -> DataFrame:
        return self.lake.stream(TABLE, self.max_per_batch)

    def rows(self, spark: SparkSession | None = None) -> DataFrame:
        return self.lake.read(TABLE, spark)
