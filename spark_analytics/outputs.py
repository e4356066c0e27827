"""Where tables go, each batch idempotent: written again after a restart it changes nothing.

Spark repeats a batch that was cut short, with the same number, input and state. So

| output    | what a batch becomes                           | why a repetition is harmless        |
|-----------|------------------------------------------------|-------------------------------------|
| `Folder`  | Parquet in `<path>/<table>/batch=<number>`     | replaces the folder of that number  |
| `Topic`   | records keyed by the table's keys, value JSON  | same key, same value: an upsert     |
| `Jdbc`    | rows of `<table>`, with a column `batch`       | replaces the rows of that number    |
| `Console` | printed                                        | it is read by people                |

A table whose rows replace one another (`update` mode, results) holds several rows of one
key in a `Folder` or `Jdbc` table: the one of the highest batch counts (`newest`). A `Folder`
is read by `read`, which sees whole batches only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

SHOWN_ROWS: Final = 20
BATCH: Final = "batch"


class Output(Protocol):
    def write(self, rows: DataFrame, table: str, keys: Sequence[str], batch: int) -> None:
        """Write one batch of a table, whole or again."""


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


@dataclass(frozen=True)
class Topic:
    """Records to `topic`; a table of several keys joins them with a line feed. The topic
    ought to be compacted. `options` as in `topics.KafkaTopics`."""

    brokers: str
    topic: str
    options: Mapping[str, str] = field(default_factory=dict)

    def write(self, rows: DataFrame, table: str, keys: Sequence[str], batch: int) -> None:
        named = [F.coalesce(F.col(key).cast("string"), F.lit("")) for key in keys]
        key = F.concat_ws("\n", F.lit(table), *named)
        value = F.to_json(F.struct(F.lit(table).alias("table"), *rows.columns))
        records = rows.select(key.alias("key"), value.alias("value"))
        options = {"kafka.bootstrap.servers": self.brokers, "topic": self.topic}
        records.write.format("kafka").options(**self.options, **options).save()


@dataclass(frozen=True)
class Jdbc:
    """Rows to a database by its JDBC driver, whose jar is among the session's.

    `clear` removes the rows of a batch before it is written (`DELETE FROM table WHERE batch =
    n`) and does nothing where there is no such table yet: Spark's writer itself cannot. A
    column that JDBC has no type for becomes JSON text.
    """

    url: str
    clear: Callable[[str, int], None]
    properties: Mapping[str, str] = field(default_factory=dict)

    def write(self, rows: DataFrame, table: str, keys: Sequence[str], batch: int) -> None:
        name = table.replace("-", "_")
        self.clear(name, batch)
        flat = flattened(rows).withColumn(BATCH, F.lit(batch).cast("long"))
        flat.coalesce(1).write.mode("append").jdbc(self.url, name, properties=dict(self.properties))


@dataclass(frozen=True)
class Console:
    rows: int = SHOWN_ROWS

    def write(self, rows: DataFrame, table: str, keys: Sequence[str], batch: int) -> None:
        kept = rows.persist()
        try:
            if batch == 0 or not kept.isEmpty():
                print(f"-- {table}, batch {batch}", flush=True)
                kept.orderBy(*[name for name in ("start", *keys) if name in rows.columns]).show(
                    self.rows, truncate=False
                )
        finally:
            kept.unpersist()


def flattened(rows: DataFrame) -> DataFrame:
    """Structs, arrays and maps as JSON text."""
    composed = ("struct", "array", "map")
    columns: list[Any] = [
        F.to_json(name).alias(name) if kind.startswith(composed) else F.col(name)
        for name, kind in rows.dtypes
    ]
    return rows.select(*columns)


def read(spark: SparkSession, path: str, table: str) -> DataFrame:
    """All rows of a table in a `Folder`, with the number of their `batch`."""
    return spark.read.parquet(f"{path}/{table}")


def newest(rows: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Of each key the row of the highest batch."""
    rest = [name for name in rows.columns if name not in keys]
    folded = rows.groupBy(*keys).agg(F.max_by(F.struct(*rest), BATCH).alias("_newest"))
    return folded.select(*keys, "_newest.*")
