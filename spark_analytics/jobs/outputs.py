"""Write tables as folders of Parquet, and define the interface of all outputs.

Spark repeats an interrupted batch with the same number, input and state, so every output allows a
batch to be written again. A batch of a `Folder` is Parquet in `<path>/<table>/batch=<number>`, so a
repetition replaces the folder of that number. (`spark_analytics.tables.output` writes to Iceberg
and Delta.)

A table whose rows replace one another (results) has several rows of one key in a `Folder`, and the
row of the highest batch counts. `read` reads a `Folder` and sees complete batches only.

The checkpoint numbers the batches. Without it the numbers begin again at 0, and the batches would
mix with those of an earlier run. `has_batches` finds such batches, and `running.claim` refuses
them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, Protocol

from pyspark.sql import DataFrame, SparkSession

from spark_analytics import folders

BATCH: Final = "batch"


@contextmanager
def persist(rows: DataFrame) -> Iterator[DataFrame]:
    """Persist the rows within the context, so that Spark computes them once."""
    kept = rows.persist()
    try:
        yield kept
    finally:
        kept.unpersist()


class Output(Protocol):
    def write(self, rows: DataFrame, table: str, keys: Sequence[str], batch: int) -> None:
        """Write one batch of a table; writing the same batch again must change nothing."""


@dataclass(frozen=True)
class Folder:
    """A folder of Parquet files for all tables but `left_out`.

    A batch is one file. An empty batch leaves no folder unless it is the first.
    """

    path: str
    left_out: frozenset[str] = frozenset()

    def write(self, rows: DataFrame, table: str, keys: Sequence[str], batch: int) -> None:
        if table in self.left_out:
            return
        with persist(rows.coalesce(1)) as kept:
            if batch == 0 or not kept.isEmpty():
                kept.write.mode("overwrite").parquet(f"{self.path}/{table}/{BATCH}={batch}")

    def has_batches(self, spark: SparkSession, table: str) -> bool:
        """Return whether the table has batches of an earlier run, with which new ones would mix."""
        return table not in self.left_out and folders.exists(spark, f"{self.path}/{table}")


def read(spark: SparkSession, path: str, table: str) -> DataFrame:
    """Return all rows of a table in a `Folder`, with the number of their `batch`."""
    return spark.read.parquet(f"{path}/{table}")
