"""Records of several partitions in one order, that of `inorder dump`: by arrival.

The arrival clock of a partition is the running maximum of its append times, as a new leader's clock
may step back. At one arrival words about clocks come first, then it goes by topic, partition and
offset. A declared offset of a clock holds from `activation` after its append, and so it arrives.

Cost: a shuffle by partition, and one by range, whose sampling reads the records once more.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

COLUMNS: Final = ("topic", "partition", "offset", "key", "value", "headers")
NS_PER_MS: Final = 1_000_000
OF_ROUND: Final = "$.t1"
LOG: Final = ("topic", "partition")


class Hole(NamedTuple):
    """Offsets that are missing amid a partition."""

    topic: str
    partition: int
    first: int
    last: int


def first_hole(rows: DataFrame) -> Hole | None:
    before = F.lag("offset").over(Window.partitionBy(*LOG).orderBy("offset"))
    seen = rows.select(*LOG, "offset", before.alias("before"))
    found = seen.where("offset > before + 1").orderBy(*LOG, "offset").first()
    if found is None:
        return None
    return Hole(found["topic"], found["partition"], found["before"] + 1, found["offset"] - 1)


def ends(rows: DataFrame) -> dict[str, int]:
    """The last offset, by `topic/partition`."""
    found = rows.groupBy(*LOG).agg(F.max("offset").alias("last")).collect()
    return {f"{row['topic']}/{row['partition']}": row["last"] for row in found}


def beyond(rows: DataFrame, read: Mapping[str, int]) -> DataFrame:
    """Without what has been read up to those offsets."""
    for log, last in read.items():
        topic, _, partition = log.rpartition("/")
        here = (F.col("topic") == topic) & (F.col("partition") == int(partition))
        rows = rows.where(~(here & (F.col("offset") <= last)))
    return rows


def in_order(rows: DataFrame, clock_topic: str, activation_ns: int) -> DataFrame:
    """`COLUMNS`, the record's own `stamp_ms`, and `arrival_ms`."""
    log = Window.partitionBy(*LOG).orderBy("offset")
    stamp_ms = F.unix_millis("timestamp")
    placed = rows.select(
        *COLUMNS, stamp_ms.alias("stamp_ms"), F.max(stamp_ms).over(log).alias("arrival_ms")
    )
    is_clock = F.col("topic") == clock_topic
    later_ns = F.when(is_clock & _is_declared(), activation_ns).otherwise(0)
    arrival_ns = F.col("arrival_ms") * NS_PER_MS + later_ns
    rank = F.when(is_clock, 0).otherwise(1)
    return placed.orderBy(arrival_ns, rank, *LOG, "offset")


def _is_declared() -> Column:
    return F.get_json_object(F.col("value").cast("string"), OF_ROUND).isNull()
