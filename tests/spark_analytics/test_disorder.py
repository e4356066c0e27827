"""Oracle: the disorder audit agrees with counts made by hand. Example: gaps, open and filled."""

from __future__ import annotations

import json
from collections import Counter

from pyspark.sql import DataFrame, SparkSession

from benchmarks.workloads import crowd
from benchmarks.workloads.rows import Row, figures
from spark_analytics import clocks, decode, disorder
from spark_analytics.aggregates import Windows
from tests.spark_analytics.marks import SPARK
from tests.spark_analytics.records import BEGIN_NS, MS, Record, frame, ordered_records, raw_records
from topology.base.event import Event
from topology.config import HeaderConfig

pytestmark = SPARK

WINDOW = Windows("tumbling", "10 milliseconds")


def plain_sort(rows: list[Row], wait_ns: int) -> list[Event]:
    """Return the first copies in order of time, emitted `wait_ns` after the newest arrival.

    Every ninth is marked late.
    """
    first: dict[tuple[str, int], Row] = {}
    for row in rows:
        first.setdefault((row.source, row.seq), row)
    events, at_ns = [], 0
    for number, row in enumerate(sorted(first.values(), key=lambda r: (r.ts_ns, r.source, r.seq))):
        event = Event("default", row.source, 0, row.seq, row.ts_ns, row.arrival_ns)
        at_ns = max(at_ns, row.arrival_ns + wait_ns)
        event.at_ns = at_ns
        event.late = "merge_wait" if number % 9 == 0 else ""
        events.append(event)
    return events


def ordered_frame(spark: SparkSession, events: list[Event]) -> DataFrame:
    return decode.decode_ordered(frame(spark, ordered_records(events)), HeaderConfig())


def test_raw_disorder_is_counted(spark: SparkSession) -> None:
    rows = crowd(300).rows
    raw = decode.split(decode.decode_raw(frame(spark, raw_records(rows)), HeaderConfig())).events
    events = plain_sort(rows, 5 * MS)
    ordered = decode.split(ordered_frame(spark, events)).events
    found = figures(rows)
    assert found.copies
    assert found.overtaken

    audited = disorder.summarize_raw(raw, WINDOW).collect()
    sums = Counter[str]()
    for row in audited:
        for name in ("n", "copies", "overtaken", "descents"):
            sums[name] += row[name]
    assert sums["n"] == found.n
    assert (sums["copies"], sums["overtaken"]) == (found.copies, found.overtaken)
    assert sums["descents"] == found.late  # the workloads call these late

    compared = {row.source: row for row in disorder.compare(raw, ordered).collect()}
    raw_counts = Counter(row.source for row in rows)
    assert {source: row.raw for source, row in compared.items()} == raw_counts
    assert sum(row.descents_before for row in compared.values()) == found.late
    assert sum(row.descents_after for row in compared.values()) == 0
    assert sum(row.in_order + row.late for row in compared.values()) == len(events)

    waited = disorder.summarize_waits(raw, ordered, Windows("tumbling", "1 day")).collect()
    longest = {row.source: row.wait_ns[-1] for row in waited}
    for source, wait_ns in longest.items():
        by_hand = [
            event.at_ns - event.arrival_ns // MS * MS
            for event in events
            if event.source == source and not event.late
        ]
        assert wait_ns == max(by_hand)


def test_late_events_are_counted(spark: SparkSession) -> None:
    """test_end_to_end.py shows the same for a stream."""
    events = plain_sort(crowd(300).rows, 5 * MS)
    audited = disorder.summarize_ordered(decode.select_sound(ordered_frame(spark, events)), WINDOW)
    found = Counter[str]()
    for row in audited.collect():
        found[row.source] += row.late
    assert found == Counter(event.source for event in events if event.late)


def test_gap_is_open_until_filled(spark: SparkSession) -> None:
    def gap(first: int, last: int, offset: int) -> Record:
        said = {"kind": "gap", "stream": "default", "source": "s", "epoch": None, "first": first}
        said |= {"last": last, "reason": "timeout", "at": 5, "known_at": 4}
        return Record(b"s", json.dumps(said).encode(), [], offset, 0, topic="gaps")

    late = [Event("default", "s", 0, seq, BEGIN_NS + seq, 0) for seq in (3, 4, 7)]
    for event in late:
        event.late = "gap"
    records = [gap(3, 4, 0), gap(6, 8, 1), gap(10, 10, 2), gap(10, 10, 3)]
    records.append(Record(b"s", b"no gap", [], 4, 0, topic="gaps"))
    declared = disorder.decode_gaps(frame(spark, records))
    ordered = decode.split(ordered_frame(spark, late)).events
    found = disorder.describe_gaps(declared.events, ordered).orderBy("first").collect()
    got = [(row.first, row.last, row.numbers, row.filled, row.open) for row in found]
    assert got == [(3, 4, 2, 2, False), (6, 8, 3, 1, True), (10, 10, 1, 0, True)]
    assert [(row.offset, row.reason) for row in declared.bad.collect()] == [(4, "gap_unreadable")]


def test_extreme_longs_are_counted(spark: SparkSession) -> None:
    least, greatest = 1 - (1 << 63), (1 << 63) - 1
    rows = [Row(BEGIN_NS, "s", seq, ts) for seq, ts in ((0, least), (greatest, greatest))]
    raw = decode.split(decode.decode_raw(frame(spark, raw_records(rows)), HeaderConfig())).events
    assert sum(row.n for row in disorder.summarize_raw(raw, WINDOW).collect()) == 2
    events = [Event("default", "s", 0, seq, least, BEGIN_NS) for seq in (0, greatest)]
    ordered = decode.select_sound(ordered_frame(spark, [_at_begin(event) for event in events]))
    (row,) = disorder.summarize_ordered(ordered, WINDOW).collect()
    assert (row.n, row.missing) == (2, greatest - 1)
    stamped = clocks.summarize_timestamps(
        ordered, Windows("tumbling", "1 day", time="at_time"), 1
    ).collect()
    assert [row.n for row in stamped] == [2]


def _at_begin(event: Event) -> Event:
    event.ref_time_ns, event.at_ns = BEGIN_NS, BEGIN_NS
    return event
