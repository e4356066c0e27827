"""The demo's topics as a whole, once all has come out: what Spark finds in them.

`passages` joins both topics: each event that came out once, with its place before and
after. `sources` sums up per source what the tables of the jobs say. Both are small enough
to be collected: the demo has thirteen thousand events.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from spark_analytics import clocks, decode, disorder
from spark_analytics.topics import KafkaTopics
from topology.config import Topology

EVENT: Final = ["source", "seq"]
RANKS: Final = (0.5, 0.99)


class Passage(NamedTuple):
    """One event; `was` and `stands` are its offsets in the raw and the ordered topic."""

    source: str
    seq: int
    was: int
    ts_ns: int
    appended_ns: int
    stands: int
    ref_ns: int
    error_ns: int
    at_ns: int
    late: str


class Round(NamedTuple):
    """One round of time sync: server minus source lies in [low, high]."""

    source: str
    at_ns: int
    low_ns: int
    high_ns: int


class Disorder(NamedTuple):
    """One source's, before and after; from the job `disorder`."""

    source: str
    raw: int
    copies: int
    overtaken: int
    descents_before: int
    in_order: int
    late: int
    descents_after: int


class Latency(NamedTuple):
    """Medians and 99th percentiles over the unmarked events of one source."""

    source: str
    n: int
    delay_ns: list[int]
    wait_ns: list[int]
    behind_ns: list[int]


class Clock(NamedTuple):
    """One source's: rounds, the best interval and the rate measured; `error_ns` as in
    Latency, of the events' times."""

    source: str
    rounds: int
    low_ns: int
    high_ns: int
    skew_ppm: float
    error_ns: list[int]


@dataclass(frozen=True)
class Found:
    passages: list[Passage]
    rounds: list[Round]
    disorder: list[Disorder]
    latency: list[Latency]
    clocks: list[Clock]
    raw: int
    dead: int
    missing: int
    """Numbers declared missing that never came."""


def analyse(spark: SparkSession, brokers: str, topology: Topology) -> Found:
    topics = KafkaTopics(spark, brokers, streaming=False)
    stream = topology.stream("default")
    records = topics.records(stream.input)
    raw = decode.split(decode.raw(records, stream.headers)).events.persist()
    ordered = decode.split(decode.ordered(topics.records(stream.output), stream.headers))
    events = ordered.events.persist()
    rounds = clocks.samples(topics.records(topology.topics.clock)).rounds.persist()
    declared = disorder.gap_records(topics.records(topology.topics.gaps)).events
    missing = disorder.gaps(declared, events).agg(
        F.coalesce(F.sum(F.col("numbers") - F.col("filled")), F.lit(0)).alias("numbers")
    )
    try:
        passed = _passages(raw, events)
        return Found(
            passages=[Passage(*row) for row in passed.select(*Passage._fields).collect()],
            rounds=[Round(*row) for row in _rounds(rounds).collect()],
            disorder=[Disorder(*row) for row in _disorder(raw, events).collect()],
            latency=[Latency(*row) for row in _latency(passed).collect()],
            clocks=[Clock(*row) for row in _clocks(rounds, events).collect()],
            raw=raw.count(),
            dead=topics.records(topology.topics.dead).count(),
            missing=int(missing.collect()[0][0]),
        )
    finally:
        for frame in (raw, events, rounds):
            frame.unpersist()


def _passages(raw: DataFrame, ordered: DataFrame) -> DataFrame:
    before = disorder.first_copies(raw).select(
        *EVENT, F.col("offset").alias("was"), "ts_ns", "appended_ns"
    )
    after = ordered.select(
        *EVENT, F.col("offset").alias("stands"), "ref_ns", "error_ns", "at_ns", "late"
    )
    return before.join(after, EVENT)


def _rounds(rounds: DataFrame) -> DataFrame:
    return rounds.select("source", "t3_ns", "low_ns", "high_ns").orderBy("t3_ns")


def _disorder(raw: DataFrame, ordered: DataFrame) -> DataFrame:
    return (
        disorder.compared(raw, ordered)
        .select(
            *("source", "raw", "copies", "overtaken_before", "descents_before"),
            *("in_order", "late", "descents_after"),
        )
        .orderBy("source")
    )


def _latency(passed: DataFrame) -> DataFrame:
    times = {
        "delay": F.col("appended_ns") - F.col("ref_ns"),
        "wait": F.col("at_ns") - F.col("appended_ns"),
        "behind": F.col("at_ns") - F.col("ref_ns"),
    }
    figures = [_quantiles(value).alias(name) for name, value in times.items()]
    unmarked = passed.where(F.col("late") == "")
    return unmarked.groupBy("source").agg(F.count(F.lit(1)), *figures).orderBy("source")


def _clocks(rounds: DataFrame, ordered: DataFrame) -> DataFrame:
    # Seconds from a nearby zero: doubles would lose the nanoseconds of an epoch.
    first_ns = rounds.agg(F.min("t3_ns").alias("_first_ns"))
    shifted = rounds.crossJoin(first_ns).withColumns(
        {
            "_s": (F.col("t3_ns") - F.col("_first_ns")) / 1e9,
            "_offset_us": F.col("offset_ns") / 1e3,
        }
    )
    best = F.min_by(F.struct("low_ns", "high_ns"), "half_ns")
    # A clock that runs fast has an offset (server - source) that falls.
    skew = -F.regr_slope("_offset_us", "_s")
    measured = shifted.groupBy("source").agg(
        F.count(F.lit(1)).alias("rounds"), best.alias("_best"), skew.alias("skew_ppm")
    )
    errors = ordered.groupBy("source").agg(_quantiles(F.col("error_ns")).alias("error_ns"))
    joined = measured.join(errors, "source").orderBy("source")
    return joined.select("source", "rounds", "_best.*", "skew_ppm", "error_ns")


def _quantiles(value: Column) -> Column:
    ranks = F.array(*(F.lit(rank) for rank in RANKS))
    return F.percentile_approx(value, ranks, 10_000)
