"""Compute counts, rates, sums and quantiles by key over windows of the corrected timestamp.

The input is the ordered events of `decode`. The output has one row per window and key:
`start_time`, `end_time`, the keys, `n`, `rate` (events per second of the window), and the requested
columns.

**Watermark.** `events.ordered` has each stream in one partition, in order of the corrected
timestamp, so Spark need not wait: the delay is 0 s. A window closes one batch after an event or a
`watermark` control record at or beyond its end has been read. No row is lost: Spark's watermark is
the newest time of a *finished* batch, rounded down to a millisecond. Spark drops a row only if its
window ends at or before the watermark. Later unmarked events in the partition have no smaller time.
There are two conditions:

* One stream per query. A Spark query has one watermark, the newest time in any partition, so a
  stream that lags would lose rows. `select_stream` selects one, and `jobs` starts a query for each.
* Events marked late are out of order. `drop_marked` leaves them out of the windows, and `late`
  selects them for a separate table. Batch and streaming queries do the same, so their results
  agree, and no event is dropped silently.

Control records carry the watermark of an idle stream and are not events. They pass through the
aggregation as separate groups, which `grouped` removes.

Windows are [start, end), aligned to the Unix epoch. Bounds and events are compared in microseconds.
A session ends `gap` after its last event. Quantiles come from Spark's sketch. The rank error is at
most 1/10,000 of the window's rows, and they are exact up to about 10,000 rows. The last digits of a
sum of doubles depend on the order of summation; sums of integers do not. A sum that exceeds a long
is null.

The state has a row for each open window and key, and a sketch for each quantile. Per key only the
newest window is open; with sliding windows, `duration / every` windows are open.
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
    """The windows to aggregate over.

    Attributes:
        kind: Tumbling, sliding or session windows.
        duration: The length of a window, or the gap that ends a session, in Spark's notation
            (`10 seconds`).
        every: The time between the starts of sliding windows.
        time: The timestamp column that determines the windows of a row.
    """

    kind: Kind
    duration: str
    every: str | None = None
    time: str = "ref_time"

    def over(self, time: str) -> Windows:
        """Return the same windows over another timestamp column."""
        return replace(self, time=time)

    def column(self) -> Column:
        time = F.col(self.time)
        if self.kind == "session":
            return F.session_window(time, self.duration)
        return F.window(time, self.duration, self.every if self.kind == "sliding" else None)


@dataclass(frozen=True)
class Measures:
    """The numeric columns (`payload.v`) to aggregate in addition to the counts.

    Attributes:
        sums: The columns to sum.
        quantiles: The columns to take quantiles of.
        ranks: The ranks of the quantiles, from 0 to 1.
    """

    sums: Sequence[str] = ()
    quantiles: Sequence[str] = ()
    ranks: Sequence[float] = (0.5, 0.99)


def select_stream(rows: DataFrame, stream: str) -> DataFrame:
    """Return the rows of one stream: events and control records."""
    return rows.where(F.col("stream") == stream)


def drop_marked(rows: DataFrame) -> DataFrame:
    """Return the rows without events that are marked late."""
    return rows.where(F.col("late") == "")


def late(rows: DataFrame) -> DataFrame:
    """Return the events that are marked late, unchanged."""
    return rows.where((F.col("late") != "") & (F.col("kind") == ""))


def aggregate(
    rows: DataFrame,
    windows: Windows,
    keys: Sequence[str] = KEYS,
    measures: Measures | None = None,
) -> DataFrame:
    """Return counts, rates and measures per window and key.

    A streaming query returns the same result as a batch query over the same rows.

    Args:
        rows: Sound rows of `decode.decode_ordered`, including control records.
        windows: The windows to aggregate over.
        keys: Columns to group by (`type`, `payload.player`).
        measures: The columns to sum or take quantiles of.
    """
    measures = measures or Measures()
    counted = group_rows(rows, windows, keys, _measure_columns(measures))
    start, end = F.col("start_time"), F.col("end_time")
    seconds = (F.unix_micros(end) - F.unix_micros(start)) / F.lit(1_000_000.0)
    return counted.withColumn("rate", F.col("n") / seconds)


def group_rows(
    rows: DataFrame, windows: Windows, keys: Sequence[str], figures: Sequence[Column]
) -> DataFrame:
    """Return `start_time`, `end_time`, the keys, `n` and the aggregates `figures` of each group."""
    counted = (
        rows.withWatermark(windows.time, AT_ONCE)
        .withColumn("_is_event", F.col("kind") == "")
        .groupBy(
            windows.column().alias("_window"),
            F.col("_is_event"),
            *(F.col(key).alias(name_column(key)) for key in keys),
        )
        .agg(F.count_if(F.col("_is_event")).alias("n"), *figures)
    )
    # Filter by the count, not by the key. Spark would move a filter on the key below the watermark,
    # and so drop the control records that advance the watermark.
    return open_window(counted.where(F.col("n") > 0).drop("_is_event"))


def open_window(counted: DataFrame) -> DataFrame:
    """Replace the column `_window` by `start_time` and `end_time`."""
    start, end = F.col("_window.start"), F.col("_window.end")
    rest = [name for name in counted.columns if name != "_window"]
    return counted.select(start.alias("start_time"), end.alias("end_time"), *rest)


def quantiles(value: Column, ranks: Sequence[float] = RANKS) -> Column:
    return F.percentile_approx(value, F.array(*map(F.lit, ranks)), ACCURACY)


def _measure_columns(measures: Measures) -> list[Column]:
    sums = [F.try_sum(F.col(name)).alias(f"sum_{name_column(name)}") for name in measures.sums]
    return sums + [
        quantiles(F.col(name), measures.ranks).alias(f"quantiles_{name_column(name)}")
        for name in measures.quantiles
    ]


def name_column(path: str) -> str:
    """Return a column name for a path such as `payload.v`."""
    return path.replace(".", "_")
