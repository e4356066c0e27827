"""Put records of several partitions in one order, that of `inorder dump`: by arrival.

The arrival clock of a partition is the running maximum of its record timestamps, because a new
leader's clock may step back. At equal arrivals, clock records come first; then records are sorted
by topic, partition and offset. A declared offset of a clock takes effect `activation` after its
timestamp, and it counts as arriving then.

The cost is a shuffle by partition, and one by range, whose sampling reads the records once more.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from pyspark.sql import Column, DataFrame, Row, Window
from pyspark.sql import functions as F

from spark_analytics.backfill.cut import NOTHING_READ, NS_PER_MS, Cut, Jump, Left, LogEnd

COLUMNS: Final = ("topic", "partition", "offset", "key", "value", "headers")
LOG_APPEND_TIME: Final = 1
OF_ROUND: Final = "$.t1"
LOG: Final = ("topic", "partition")


class Parted(NamedTuple):
    """A split of lines at a time.

    Attributes:
        left: The first line of each log that is due at that time or later.
        taken: The number of lines that are due before that time.
    """

    left: Mapping[str, Left]
    taken: int


def find_log_ends(rows: DataFrame, cut: Cut, *, holes: bool = False) -> dict[str, LogEnd]:
    """Return the end of each log beyond the cut, by `topic/partition`, in one pass.

    With `holes` missing offsets do not count as jumps; only repeated ones do.
    """
    stamp_ms = F.unix_millis("timestamp")
    is_new = F.col("offset") > _value_of_log(cut.seen, F.lit(NOTHING_READ))
    floor_ms = _value_of_log(cut.floors_ms, F.lit(None).cast("long"))
    before = F.lag("offset").over(Window.partitionBy(*LOG).orderBy("offset"))
    is_jump = F.col("offset") == F.col("before")
    if not holes:
        is_jump = F.col("offset") != F.col("before") + 1
    found = (
        rows.select(
            *LOG,
            "offset",
            before.alias("before"),
            stamp_ms.alias("ms"),
            "timestampType",
            is_new.alias("new"),
            floor_ms.alias("floor"),
        )
        .groupBy(*LOG)
        .agg(
            F.min("offset").alias("first"),
            F.max("offset").alias("last"),
            F.greatest(F.max("floor"), F.max("ms")).alias("arrival_ms"),
            F.min_by(
                F.when(F.col("new"), F.col("ms")), F.when(F.col("new"), F.col("offset"))
            ).alias("new_ms"),
            F.greatest(F.max("floor"), F.max(F.when(~F.col("new"), F.col("ms")))).alias("seen_ms"),
            F.min("timestampType").alias("type"),
            F.min(F.when(is_jump, F.struct("offset", "before"))).alias("jump"),
        )
        .collect()
    )
    return {f"{row['topic']}/{row['partition']}": _to_log_end(row) for row in found}


def _to_log_end(row: Row) -> LogEnd:
    new_ms, seen_ms = row["new_ms"], row["seen_ms"]
    if new_ms is not None and seen_ms is not None:
        new_ms = max(new_ms, seen_ms)
    is_stamped = row["type"] == LOG_APPEND_TIME
    jump = None if row["jump"] is None else Jump(row["jump"]["before"], row["jump"]["offset"])
    return LogEnd(row["first"], row["last"], row["arrival_ms"], new_ms, is_stamped, jump)


def select_beyond(rows: DataFrame, read: Mapping[str, int]) -> DataFrame:
    """Return the rows beyond the offset that `read` has for their partition."""
    return rows.where(F.col("offset") > _value_of_log(read, F.lit(NOTHING_READ))) if read else rows


def select_new(rows: DataFrame, cut: Cut, clock_topic: str, activation_ns: int) -> DataFrame:
    """Return the records beyond the cut that were not taken yet.

    The columns are `COLUMNS`, `timestamp`, `stamp_ms` (the same time in ms), `arrival_ms` and
    `due_ns`. The last is the arrival, or the time when a declared offset takes effect.
    """
    log = Window.partitionBy(*LOG).orderBy("offset")
    stamp_ms = F.unix_millis("timestamp")
    floor_ms = _value_of_log(cut.floors_ms, F.lit(None).cast("long"))
    is_declared = (F.col("topic") == clock_topic) & _is_declared()
    later_ns = F.when(is_declared, activation_ns).otherwise(0)
    lines = rows.select(
        *COLUMNS,
        "timestamp",
        stamp_ms.alias("stamp_ms"),
        F.greatest(floor_ms, F.max(stamp_ms).over(log)).alias("arrival_ms"),
    ).withColumn("due_ns", F.col("arrival_ms") * NS_PER_MS + later_ns)
    if cut.until_ns is None:
        return lines
    is_seen = F.col("offset") <= _value_of_log(cut.seen, F.lit(NOTHING_READ))
    return lines.where(~(is_seen & (F.col("due_ns") < cut.until_ns)))


def split_lines(lines: DataFrame, until_ns: int) -> Parted:
    """Return how `until_ns` splits the lines; those that are due before it are taken."""
    is_due = F.col("due_ns") < until_ns
    found = (
        lines.groupBy(*LOG)
        .agg(
            F.min(F.when(~is_due, F.col("offset"))).alias("first"),
            F.min(F.when(~is_due, F.col("arrival_ms"))).alias("ms"),
            F.count_if(is_due).alias("taken"),
        )
        .collect()
    )
    rest = [row for row in found if row["first"] is not None]
    left = {f"{row['topic']}/{row['partition']}": Left(row["first"], row["ms"]) for row in rest}
    return Parted(left, sum(row["taken"] for row in found))


def in_order(lines: DataFrame, clock_topic: str) -> DataFrame:
    """Return the lines of `select_new` in the order of `inorder dump`.

    The columns are `COLUMNS`, `stamp_ms` and `arrival_ms`.
    """
    rank = F.when(F.col("topic") == clock_topic, 0).otherwise(1)
    return lines.orderBy("due_ns", rank, *LOG, "offset").drop("due_ns", "timestamp")


def _log() -> Column:
    return F.concat_ws("/", "topic", F.col("partition").cast("string"))


def _value_of_log(known: Mapping[str, int], otherwise: Column) -> Column:
    """Return the value that `known` has for a record's log, or `otherwise`."""
    if not known:
        return otherwise
    pairs = [F.lit(each) for pair in known.items() for each in pair]
    return F.coalesce(F.try_element_at(F.create_map(*pairs), _log()), otherwise)


def _is_declared() -> Column:
    return F.get_json_object(F.col("value").cast("string"), OF_ROUND).isNull()
