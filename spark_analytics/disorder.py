"""Audit disorder: how disordered the raw topic was, and the cost of putting it in order.

| function            | input                        | result per source and window           |
|---------------------|------------------------------|----------------------------------------|
| `summarize_ordered` | events, bounded or streaming | share marked late, accuracy, missing   |
|                     |                              | numbers, time to an event's emission   |
| `summarize_raw`     | raw events, bounded          | duplicates, out of order, descents,    |
|                     |                              | delay                                  |
| `summarize_waits`   | both, bounded                | waiting time: from arrival to emission |
| `describe_gaps`     | `events.gaps`, ordered       | each gap: how many numbers arrived     |
| `compare`           | both, bounded                | disorder before and after, per source  |

These columns mark raw events, judged by earlier offsets of the same partition, which contains all
events of a source:

* `copy`: its source has sent its number before in the same epoch.
* `overtaken`: not a copy, and its source has sent a larger number before in the same epoch.
* `descent`: an earlier event of its stream has a later time.

`accuracy` is the share of events that were emitted in order. The delay is the arrival time minus
the corrected timestamp, so it includes the clock's error.

Windows are over the arrival clock: the arrival time on the raw topic, `at_time` on the ordered one.
`at_time` never decreases within a stream, events marked late included. The watermark's delay is
therefore 0 as in `aggregates`, and a streaming query counts the same as a batch.

Missing numbers are counted between the smallest and the largest of a window. Numbers that are
missing at its edges are not counted; `describe_gaps` has them all. Quantiles are as in
`aggregates`. A difference that does not fit into a long is null.

The cost of `summarize_ordered` is one aggregation. `summarize_raw`, `summarize_waits` and `compare`
sort and join by event, with one shuffle each.
"""

from __future__ import annotations

from functools import reduce
from operator import and_
from typing import Final

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

from spark_analytics.aggregates import Windows, group_rows, open_window, quantiles
from spark_analytics.decode import RECORD, Decoded
from spark_analytics.once import compute_once

EVENT: Final = ("stream", "source", "epoch", "seq")
SOURCE: Final = ("stream", "source")
GAP: Final = (
    "stream STRING, source STRING, epoch BIGINT, first BIGINT, last BIGINT, reason STRING,"
    " at BIGINT, known_at BIGINT, ts_before BIGINT, ts_after BIGINT"
)


def summarize_ordered(rows: DataFrame, windows: Windows) -> DataFrame:
    """Summarize ordered events per stream, source, epoch and window.

    `rows` are sound rows of `decode.decode_ordered`, including control records, which only advance
    the watermark.
    """
    figures = [
        F.count_if(F.col("late") != "").alias("late"),
        F.min("seq").alias("first_seq"),
        F.max("seq").alias("last_seq"),
        quantiles(F.try_subtract("at_ns", "ref_ns")).alias("behind_ns"),
    ]
    keys = (*SOURCE, "epoch")
    return group_rows(rows, windows.over("at_time"), keys, figures).withColumns(
        {
            "accuracy": 1 - F.col("late") / F.col("n"),
            "missing": F.col("last_seq") - F.col("first_seq") - F.col("n") + 1,
        }
    )


def summarize_raw(events: DataFrame, windows: Windows) -> DataFrame:
    """Summarize the events of `decode.raw` per stream, source and window."""
    window = windows.over("timestamp").column()
    by_window = mark_disorder(events).groupBy(window.alias("_window"), *SOURCE)
    return open_window(
        by_window.agg(
            F.count(F.lit(1)).alias("n"),
            F.count_if("copy").alias("copies"),
            F.count_if("overtaken").alias("overtaken"),
            F.count_if("descent").alias("descents"),
            quantiles(F.try_subtract("appended_ns", "ref_ns")).alias("delay_ns"),
        )
    )


def mark_disorder(events: DataFrame) -> DataFrame:
    """Add `copy`, `overtaken` and `descent` to raw events, judged by earlier events."""
    of_source = window_of_earlier("topic", "partition", "source", "epoch")
    of_stream = window_of_earlier("topic", "partition", "stream")
    overtaken = F.coalesce(F.col("seq") < F.max("seq").over(of_source), F.lit(False))
    descent = F.coalesce(F.col("ref_ns") < F.max("ref_ns").over(of_stream), F.lit(False))
    rows = _count(events).withColumn("copy", F.col("_copy") > 1).drop("_copy")
    return rows.withColumns({"overtaken": overtaken & ~F.col("copy"), "descent": descent})


def first_copies(events: DataFrame) -> DataFrame:
    """Return the first copy of each raw event, by offset; an absent epoch counts as 0."""
    return _count(events).where("_copy = 1").drop("_copy")


def _count(events: DataFrame) -> DataFrame:
    """Add `_copy`, which numbers the copies of a raw event from 1."""
    copies = Window.partitionBy(*EVENT).orderBy("partition", "offset")
    return events.withColumn("epoch", epoch()).withColumn("_copy", F.row_number().over(copies))


def epoch() -> Column:
    """Return the column `epoch`, with 0 for an absent epoch."""
    return F.coalesce("epoch", F.lit(0).cast("long"))


def summarize_waits(raw: DataFrame, ordered: DataFrame, windows: Windows) -> DataFrame:
    """Summarize how long events waited to be emitted in order, per stream, source and window."""
    appended = first_copies(raw).select(*EVENT, "appended_ns")
    joined = ordered.where(F.col("late") == "").join(appended, on=list(EVENT))
    wait_ns = F.try_subtract("at_ns", "appended_ns")
    by_window = joined.groupBy(windows.over("at_time").column().alias("_window"), *SOURCE)
    return open_window(
        by_window.agg(
            F.count(F.lit(1)).alias("n"),
            F.count_if(wait_ns <= 0).alias("at_once"),
            quantiles(wait_ns).alias("wait_ns"),
            F.avg(wait_ns).alias("mean_wait_ns"),
        )
    )


def decode_gaps(records: DataFrame) -> Decoded:
    """Decode records of `events.gaps` to typed rows, and return unreadable ones separately."""
    read = F.from_json(F.col("value").cast("string"), GAP)
    rows = records.withColumn("_r", compute_once(read))
    needed = ("stream", "source", "first", "last")
    whole = reduce(and_, (F.col(f"_r.{name}").isNotNull() for name in needed))
    place = RECORD[:4]
    detail = F.lit("the value is not a gap; only stages may write to this topic")
    reason = F.lit("gap_unreadable")
    bad = rows.where(~whole).select(*place, reason.alias("reason"), detail.alias("detail"))
    return Decoded(rows.where(whole).select(*place, "_r.*"), rows.limit(0).select(*place), bad)


def describe_gaps(declared: DataFrame, ordered: DataFrame) -> DataFrame:
    """Return each gap with `numbers`, `filled` (how many arrived later) and `open`."""
    known = declared.withColumn("epoch", epoch()).withColumnRenamed("at", "at_ns")
    gap = [*SOURCE, "epoch", "first", "last", "reason", "at_ns"]
    known = known.select(*gap).dropDuplicates([*SOURCE, "epoch", "first", "last"])
    came = ordered.where(F.col("late") != "").select(*EVENT).distinct()
    inside = (
        (known["stream"] == came["stream"])
        & (known["source"] == came["source"])
        & (known["epoch"] == came["epoch"])
        & came["seq"].between(known["first"], known["last"])
    )
    joined = known.join(came, inside, "left").select(*(known[name] for name in gap), came["seq"])
    numbers = F.try_add(F.try_subtract("last", "first"), F.lit(1))
    counted = joined.groupBy(*gap).agg(F.count("seq").alias("filled"))
    return counted.withColumns({"numbers": numbers, "open": F.col("filled") < numbers})


def compare(raw: DataFrame, ordered: DataFrame) -> DataFrame:
    """Compare the raw topic with the ordered one, per stream and source."""
    before = (
        mark_disorder(raw)
        .groupBy(*SOURCE)
        .agg(
            F.count(F.lit(1)).alias("raw"),
            F.count_if("copy").alias("copies"),
            F.count_if("overtaken").alias("overtaken_before"),
            F.count_if("descent").alias("descents_before"),
        )
    )
    in_order = window_of_earlier("topic", "partition", "stream")
    unmarked = ordered.where(F.col("late") == "").withColumn(
        "_descent", F.col("ref_ns") < F.max("ref_ns").over(in_order)
    )
    after = unmarked.groupBy(*SOURCE).agg(
        F.count(F.lit(1)).alias("in_order"),
        F.count_if("_descent").alias("descents_after"),
    )
    marked = ordered.where(F.col("late") != "").groupBy(*SOURCE).agg(F.count("*").alias("late"))
    joined = before.join(after, list(SOURCE), "full").join(marked, list(SOURCE), "full")
    return joined.na.fill(0)


def window_of_earlier(*keys: str) -> WindowSpec:
    """Return the window of all rows with the same keys and a lower offset."""
    window = Window.partitionBy(*keys).orderBy("offset")
    return window.rowsBetween(Window.unboundedPreceding, -1)
