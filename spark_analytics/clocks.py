"""Audit clocks: the measurements of each source's clock, and the corrections derived from them.

`split_records` reads `clock.offsets`. Each round of time sync bounds the offset D = server - source
from both sides, t3 - t4 <= D <= t2 - t1. A round whose bounds contradict each other is a bad row,
like an unreadable record. Declared offsets are returned separately.

`offsets` summarizes rounds per source, server, segment and window of the server's time: their
number, the tightest interval, the round trips, and the skew. The skew is the slope of the
interval's midpoint over time, in ppm, by least squares. The tightest interval is that of the best
single round. Rounds of one window are not intersected, since the clock drifts between them.

`summarize_timestamps` reads the ordered topic. Per source and window it summarizes the error of the
corrected timestamp, the segments, and the applied offset (if records have a `ts`). It also has the
share of events whose error exceeds `max_error` of the topology (`quarantined`).
"""

from __future__ import annotations

from typing import Final, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_analytics.aggregates import Windows, group_rows, open_window, quantiles
from spark_analytics.decode import RECORD
from spark_analytics.instants import to_timestamp
from spark_analytics.once import compute_once

SCHEMA: Final = (
    "t1 BIGINT, t2 BIGINT, t3 BIGINT, t4 BIGINT, server STRING, segment BIGINT, mono BIGINT,"
    " at BIGINT, offset BIGINT, error BIGINT"
)
PPM: Final = 1e6


class Words(NamedTuple):
    """The decoded `clock.offsets`: `rounds` of time sync, `declared` offsets, and `bad` records."""

    rounds: DataFrame
    declared: DataFrame
    bad: DataFrame


def split_records(records: DataFrame) -> Words:
    """Split the records of `clock.offsets` by kind, with typed columns; the key is the source."""
    place = RECORD[:4]
    rows = records.select(
        *place,
        F.try_validate_utf8(F.col("key").cast("string")).alias("source"),
        compute_once(F.from_json(F.col("value").cast("string"), SCHEMA)).alias("_w"),
        F.col("value").isNull().alias("_forgotten"),
    )
    t1, t2, t3, t4 = (F.col(f"_w.t{number}") for number in range(1, 5))
    some = t1.isNotNull() | t2.isNotNull() | t3.isNotNull() | t4.isNotNull()
    whole = t1.isNotNull() & t2.isNotNull() & t3.isNotNull() & t4.isNotNull()
    low, high = F.try_subtract(t3, t4), F.try_subtract(t2, t1)
    width = F.try_subtract(high, low)
    half = F.call_function("div", width, F.lit(2))
    reason = (
        F.when(F.col("_forgotten"), None)
        .when(F.coalesce(F.length("source"), F.lit(0)) == 0, "source_missing")
        .when(some & ~whole, "round_incomplete")
        .when(~some & F.col("_w.at").isNull(), "word_unreadable")
        .when(whole & F.coalesce(width < 0, F.lit(True)), "round_contradicts")
    )
    rows = rows.where(~F.col("_forgotten")).withColumn("reason", reason)
    sound = rows.where(F.col("reason").isNull())
    rounds = sound.where(F.col("_w.t1").isNotNull()).select(
        *place,
        "source",
        F.coalesce(F.col("_w.server"), F.lit("")).alias("server"),
        F.coalesce(F.col("_w.segment"), F.lit(0).cast("long")).alias("segment"),
        *(F.col(f"_w.t{number}").alias(f"t{number}_ns") for number in range(1, 5)),
        low.alias("low_ns"),
        high.alias("high_ns"),
        (low + half).alias("offset_ns"),
        half.alias("half_ns"),
        width.alias("round_trip_ns"),
        to_timestamp(t3).alias("ref_time"),
    )
    declared = sound.where(F.col("_w.t1").isNull()).select(
        *place,
        "source",
        F.col("_w.at").alias("at_ns"),
        F.col("_w.offset").alias("offset_ns"),
        F.col("_w.error").alias("error_ns"),
    )
    detail = F.to_json("_w").alias("detail")
    bad = rows.where(F.col("reason").isNotNull()).select(*place, "source", "reason", detail)
    return Words(rounds, declared, bad)


def summarize_rounds(rounds: DataFrame, windows: Windows) -> DataFrame:
    """Summarize rounds, which must be bounded, per source, server, segment and window."""
    tightest = F.min_by(F.struct("low_ns", "high_ns"), "half_ns")
    # `_s` has seconds since the epoch, as doubles that are exact to a quarter of a microsecond.
    rows = rounds.withColumn("_s", F.unix_micros("ref_time") / 1e6)
    window = windows.column().alias("_window")
    by_window = rows.groupBy(window, "source", "server", "segment").agg(
        F.count(F.lit(1)).alias("rounds"),
        tightest.alias("_tightest"),
        quantiles(F.col("round_trip_ns")).alias("round_trip_ns"),
        (F.regr_slope(F.col("offset_ns").cast("double"), F.col("_s")) / 1e9 * PPM).alias(
            "skew_ppm"
        ),
    )
    keys = ("_window", "source", "server", "segment", "rounds")
    return open_window(by_window.select(*keys, "_tightest.*", "round_trip_ns", "skew_ppm"))


def summarize_timestamps(rows: DataFrame, windows: Windows, max_error_ns: int) -> DataFrame:
    """Summarize the corrected timestamps per stream, source and window.

    `rows` are sound rows of `decode.decode_ordered`, including control records, which only advance
    the watermark.
    """
    applied_ns = F.try_subtract("ref_ns", "ts_ns")
    figures = [
        quantiles(F.col("error_ns")).alias("error_ns"),
        F.min("segment").alias("first_segment"),
        F.max("segment").alias("last_segment"),
        F.min(applied_ns).alias("least_offset_ns"),
        F.max(applied_ns).alias("greatest_offset_ns"),
        F.count_if(F.col("error_ns") > max_error_ns).alias("beyond_max_error"),
    ]
    counted = group_rows(rows, windows, ("stream", "source"), figures)
    return counted.withColumn("quarantined", F.col("beyond_max_error") / F.col("n"))
