"""Counts, rates, sums and quantiles by key over windows of reference time.

In: events of `decode` (ordered). Out: one row per window and key: `start_time`, `end_time`, the
keys, `n`, `rate` (events per second of the window), and the columns asked for.

**Watermark.** `events.ordered` holds each stream in order of reference time in one
partition, so Spark need not wait: the delay is 0 s. A window closes with the batch after the
one that brought an event, or a `watermark` control record, at or beyond its end. This is
right because Spark's watermark is the newest time of a *finished* batch, rounded down to a
millisecond, and drops a row only if its window ends at or before it; no unmarked event that
follows in the partition has a smaller time. Two conditions:

* One stream per query. Spark has one watermark for a query, the newest time in any
  partition; a stream that lags behind another would lose rows. `of_stream` picks one, and
  `jobs` starts a query for each.
* Events marked late are out of order by their mark. They have no part in the windows
  (`unmarked`) and are counted in a table of their own (`late`), in batch as in a stream, so
  that both agree; nothing is dropped in silence.

Control records pass through the aggregation as groups of their own, which `grouped`
removes: they carry the watermark of a quiet stream and are no events.

Windows are [start, end), aligned to the epoch; bounds and events are compared in
microseconds. A session ends `gap` after its last event. Quantiles are those of Spark's
sketch: rank error at most 1/10,000 of the window's rows, exact up to about 10,000. Sums of
doubles depend on the order of summation in their last digits, sums of integers do not; one
that a long cannot hold is null.

State: a row for each open window and key, plus a sketch for each quantile; only the newest window
of each key (of sliding windows, duration / every) is open.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

Kind = Literal["tumbling", "sliding", "session"]

ACCURACY: Final = 10_000
KEYS: Final = ("stream", "source")
AT_ONCE: Final = "0 seconds"
RANKS: Final = (0.5, 0.9, 0.99, 1.0)


@dataclass(frozen=True)
class Windows:
    """`duration` of tumbling and sliding windows, or a session's gap, in Spark's words
    (`10 seconds`); `every` of sliding ones; over the column `time`."""

    kind: Kind
    duration: str
    every: str | None = None
    time: str = "ref_time"

    def over(self, time: str) -> Windows:
        """The same windows over another column."""
        return replace(self, time=time)

    def column(self) -> Column:
        time = F.col(self.time)
        if self.kind == "session":
            return F.session_window(time, self.duration)
        return F.window(time, self.duration, self.every if self.kind == "sliding" else None)


@dataclass(frozen=True)
class Measures:
    """What is computed of which numeric columns (`payload.v`), besides counts."""

    sums: Sequence[str] = ()
    quantiles: Sequence[str] = ()
    ranks: Sequence[float] = (0.5, 0.99)


def of_stream(rows: DataFrame, stream: str) -> DataFrame:
    """The one stream: events and control records alike."""
    return rows.where(F.col("stream") == stream)


def unmarked(rows: DataFrame) -> DataFrame:
    """Without the events that stand outside the order."""
    return rows.where(F.col("late") == "")


def late(rows: DataFrame) -> DataFrame:
    """The events that `unmarked` leaves out, as they are."""
    return rows.where((F.col("late") != "") & (F.col("kind") == ""))


def aggregate(
    rows: DataFrame,
    windows: Windows,
    keys: Sequence[str] = KEYS,
    measures: Measures | None = None,
) -> DataFrame:
    """`rows` are sound rows of `decode.ordered`, control records among them; `keys` columns
    (`type`, `payload.player`). The same answer for a stream as for all its rows at once."""
    measures = measures or Measures()
    counted = grouped(rows, windows, keys, _measured(measures))
    start, end = F.col("start_time"), F.col("end_time")
    seconds = (F.unix_micros(end) - F.unix_micros(start)) / F.lit(1_000_000.0)
    return counted.withColumn("rate", F.col("n") / seconds)


def grouped(
    rows: DataFrame, windows: Windows, keys: Sequence[str], figures: Sequence[Column]
) -> DataFrame:
    """Any figures over windows and keys: `start_time`, `end_time`, the keys, `n`, the figures."""
    counted = (
        rows.withWatermark(windows.time, AT_ONCE)
        .withColumn("_is_event", F.col("kind") == "")
        .groupBy(
            windows.column().alias("_window"),
            F.col("_is_event"),
            *(F.col(key).alias(named(key)) for key in keys),
        )
        .agg(F.count_if(F.col("_is_event")).alias("n"), *figures)
    )
    # By the count, not by the key: Spark would move a filter on the key below the watermark,
    # which control records are there to carry.
    return opened(counted.where(F.col("n") > 0).drop("_is_event"))


def opened(counted: DataFrame) -> DataFrame:
    """Rows with `start_time` and `end_time` in place of the column `_window`."""
    start, end = F.col("_window.start"), F.col("_window.end")
    rest = [name for name in counted.columns if name != "_window"]
    return counted.select(start.alias("start_time"), end.alias("end_time"), *rest)


def quantiles(value: Column, ranks: Sequence[float] = RANKS) -> Column:
    return F.percentile_approx(value, F.array(*map(F.lit, ranks)), ACCURACY)


def _measured(measures: Measures) -> list[Column]:
    sums = [F.try_sum(F.col(name)).alias(f"sum_{named(name)}") for name in measures.sums]
    return sums + [
        quantiles(F.col(name), measures.ranks).alias(f"quantiles_{named(name)}")
        for name in measures.quantiles
    ]


def named(path: str) -> str:
    """`payload.v` as a column's own name."""
    return path.replace(".", "_")
