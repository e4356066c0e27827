"""Oracle: the truth check finds each kind of damage, and nothing if all is well."""

from __future__ import annotations

import json
from collections.abc import Callable

from pyspark.sql import SparkSession

from benchmarks.workloads import crowd
from spark_analytics import decode, truth
from tests.spark_analytics.marks import SPARK
from tests.spark_analytics.records import Record, frame, ordered_records, raw_records
from topology.base.event import Event
from topology.config import HeaderConfig

pytestmark = SPARK

ROWS = crowd(120).rows
RAW = raw_records(ROWS)
DEAD = len(RAW)
"""The offset of a record that became a dead letter."""


def in_order() -> list[Record]:
    """Return the records that a MERGE waiting for all events writes."""
    first = {(row.source, row.seq): row for row in reversed(ROWS)}.values()
    events = [Event("default", row.source, 0, row.seq, row.ts_ns, 0) for row in first]
    events.sort(key=lambda event: (event.ref_time_ns, event.source, event.epoch, event.seq))
    return ordered_records(events)


def without_header(record: Record, name: str) -> Record:
    return record._replace(headers=[header for header in record.headers if header[0] != name])


def with_header(record: Record, name: str, value: bytes) -> Record:
    headers = [*without_header(record, name).headers, (name, value)]
    return record._replace(headers=headers)


def swapped(records: list[Record]) -> list[Record]:
    one, other = records[40], records[90]
    records[40] = other._replace(offset=40)
    records[90] = one._replace(offset=90)
    return records


def changed(at: int, change: Callable[[Record], Record]) -> Callable[[list[Record]], list[Record]]:
    def damage(records: list[Record]) -> list[Record]:
        records[at] = change(records[at])
        return records

    return damage


DAMAGES: dict[str, tuple[Callable[[list[Record]], list[Record]], set[tuple[str, int | None]]]] = {
    "none": (lambda records: records, set()),
    "dropped": (lambda records: records[:50] + records[51:], {("lost", None)}),
    "again": (
        lambda records: [*records, records[60]._replace(offset=999)],
        {("twice", 999), ("misplaced", 999), ("out_of_sequence", 999)},
    ),
    "made up": (
        changed(-1, lambda r: with_header(r, "seqNum", b"99999")),
        {("lost", None), ("invented", -1)},
    ),
    "value": (changed(20, lambda r: r._replace(value=b"{}")), {("changed", 20)}),
    "error": (changed(20, lambda r: with_header(r, "err", b"5")), {("changed", 20)}),
    "time": (changed(0, lambda r: with_header(r, "refTs", b"5")), {("changed", 0)}),
    "elsewhere": (changed(30, lambda r: r._replace(partition=1)), {("strayed", 30)}),
    "no stamp": (
        changed(30, lambda r: without_header(r, "refTs")),
        {("unreadable", 30), ("lost", None)},
    ),
    "marked": (lambda records: [with_header(r, "late", b"gap") for r in swapped(records)], set()),
    "swapped": (swapped, {("misplaced", offset) for offset in range(41, 91)}),
}


def test_only_the_damage_is_found(spark: SparkSession) -> None:
    """Each kind of damage has its own stream, and all are checked at once. If two events are
    swapped, all events between them count as misplaced.
    """
    sent, written = [], []
    for stream, (damage, _) in DAMAGES.items():
        for record in RAW:
            named = with_header(record, "streamId", stream.encode())
            sent.append(named._replace(topic=stream))
        for record in damage(in_order()):
            named = with_header(record, "streamId", stream.encode())
            written.append(named._replace(topic=stream))
    dead = Record(None, b"", [("sourceId", b"dead"), ("seqNum", b"1")], DEAD, 0, topic="none")
    sent.append(with_header(dead, "streamId", b"none"))
    aside = Record(None, b"", [("sourceId", b"late"), ("seqNum", b"1")], DEAD, 0, topic="error")
    sent.append(with_header(aside, "streamId", b"error"))
    letter = {"topic": "none", "partition": 0, "offset": DEAD, "reason": "ahead"}
    letters = frame(spark, [Record(None, json.dumps(letter).encode(), [], 0, 0)])
    found = truth.differences(
        decode.split(decode.decode_raw(frame(spark, sent), HeaderConfig())).events,
        decode.split(decode.decode_ordered(frame(spark, written), HeaderConfig())),
        list(DAMAGES),
        decode.split(decode.decode_raw(frame(spark, sent[-1:]), HeaderConfig())).events,
        truth.dead_letters(letters),
    )
    last = len(in_order()) - 1
    got: dict[str, set[tuple[str, int | None]]] = {stream: set() for stream in DAMAGES}
    for row in found.collect():
        place = -1 if row.offset == last else row.offset
        if row.stream != "swapped" or row.difference != "out_of_sequence":
            got[row.stream].add((row.difference, place))
    assert got == {stream: expected for stream, (_, expected) in DAMAGES.items()}
