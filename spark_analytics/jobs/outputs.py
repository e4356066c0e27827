"""Where tables go, each batch idempotent: written again after a restart it changes nothing.

Spark repeats a batch that was cut short, with the same number, input and state. So

| output    | what a batch becomes                           | why a repetition is harmless        |
|-----------|------------------------------------------------|-------------------------------------|
| `Folder`  | Parquet in `<path>/<table>/batch=<number>`     | replaces the folder of that number  |
| `Topic`   | records keyed by the table's keys, value JSON  | same key, same value: an upsert     |
| `Jdbc`    | rows of a table, with a column `batch`         | replaces the rows of that number    |
| `Console` | printed                                        | it is read by people                |

(`Jdbc` has a module of its own.) `Several` writes each batch to all of its outputs in turn;
a batch that only some of them have is repeated for all.

A table whose rows replace one another (results) holds several rows of one key in a `Folder`
or `Jdbc` table: the one of the highest batch counts (`newest`). A `Folder` is read by
`read`, which sees whole batches only.

Batches are numbered by the checkpoint. Without it they begin again at 0 and would mix with
those of an earlier run: `holds` finds such batches, and `running.claim` refuses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_analytics import folders

SHOWN_ROWS: Final = 20
BATCH: Final = "batch"
MICROSECONDS: Final = "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"
"""Spark would write milliseconds."""


class Output(Protocol):
    def write(self, rows: DataFrame, table: str, keys: Sequence[str], batch: int) -> None:
        """Write one batch of a table, whole or again."""


class Lasting(Output, Protocol):
    def holds(self, spark: SparkSession, table: str) -> bool:
        """Whether batches of an earlier run lie there, with which new ones would mix."""


@dataclass(frozen=True)
class Folder:
    """A batch without rows leaves no folder. `files` is how many files a batch becomes."""

    path: str
    files: int = 1

    def write(self, rows: DataFrame, table: str, keys: Sequence[str], batch: int) -> None:
        kept = rows.coalesce(self.files).persist()
        try:
            if batch == 0 or not kept.isEmpty():
                target = f"{self.path}/{table}/{BATCH}={batch}"
                kept.write.mode("overwrite").parquet(target)
        finally:
            kept.unpersist()

    def holds(self, spark: SparkSession, table: str) -> bool:
        return folders.exists(spark, f"{self.path}/{table}")


@dataclass(frozen=True)
class Topic:
    """Records to `topic`, which ought to be compacted. The key is a JSON list of the table's
    name and the row's keys, so several tables may share a topic. `options` as in
    `topics.KafkaTopics`."""

    brokers: str
    topic: str
    options: Mapping[str, str] = field(default_factory=dict)

    def write(self, rows: DataFrame, table: str, keys: Sequence[str], batch: int) -> None:
        named = [F.col(key).cast("string") for key in keys]
        key = F.to_json(F.array(F.lit(table), *named))
        whole = F.struct(F.lit(table).alias("table"), *rows.columns)
        value = F.to_json(whole, {"timestampFormat": MICROSECONDS})
        records = rows.select(key.alias("key"), value.alias("value"))
        options = {"kafka.bootstrap.servers": self.brokers, "topic": self.topic}
        records.write.format("kafka").options(**self.options, **options).save()

    def holds(self, spark: SparkSession, table: str) -> bool:
        """Keys take no number of a batch: an older run's rows are replaced by the same."""
        return False


@dataclass(frozen=True)
class Console:
    rows: int = SHOWN_ROWS

    def write(self, rows: DataFrame, table: str, keys: Sequence[str], batch: int) -> None:
        kept = rows.persist()
        try:
            if batch == 0 or not kept.isEmpty():
                print(f"-- {table}, batch {batch}", flush=True)
                kept.orderBy(
                    *[name for name in ("start_time", *keys) if name in rows.columns]
                ).show(self.rows, truncate=False)
        finally:
            kept.unpersist()

    def holds(self, spark: SparkSession, table: str) -> bool:
        return False


@dataclass(frozen=True)
class Several:
    """The batch is computed once."""

    outputs: Sequence[Lasting]

    def write(self, rows: DataFrame, table: str, keys: Sequence[str], batch: int) -> None:
        kept = rows.persist()
        try:
            for output in self.outputs:
                output.write(kept, table, keys, batch)
        finally:
            kept.unpersist()

    def holds(self, spark: SparkSession, table: str) -> bool:
        return any(output.holds(spark, table) for output in self.outputs)


@dataclass(frozen=True)
class Without:
    """`output` takes all tables but these."""

    output: Lasting
    tables: frozenset[str]

    def write(self, rows: DataFrame, table: str, keys: Sequence[str], batch: int) -> None:
        if table not in self.tables:
            self.output.write(rows, table, keys, batch)

    def holds(self, spark: SparkSession, table: str) -> bool:
        return table not in self.tables and self.output.holds(spark, table)


def read(spark: SparkSession, path: str, table: str) -> DataFrame:
    """All rows of a table in a `Folder`, with the number of their `batch`."""
    return spark.read.parquet(f"{path}/{table}")


def newest(rows: DataFrame, keys: Sequence[str]) -> DataFrame:
    """The row of the highest batch, for each key."""
    rest = [name for name in rows.columns if name not in keys]
    folded = rows.groupBy(*keys).agg(F.max_by(F.struct(*rest), BATCH).alias("_newest"))
    return folded.select(*keys, "_newest.*")
