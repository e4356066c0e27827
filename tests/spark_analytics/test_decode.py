"""Oracle: rows of raw topics match what `topology.records.header_reader` reads, and rows of ordered
topics match what `topology.records.header_writer` wrote. Examples: records that no stage wrote, and
payloads.
"""

from __future__ import annotations

import random
from typing import Any

import pytest
from pyspark.sql import Row as SparkRow
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from spark_analytics import decode, payload, results
from tests.spark_analytics.marks import SPARK
from tests.spark_analytics.records import BEGIN_NS, MS, Record, frame, ordered_records, watermark
from topology.base.event import NO_EPOCH, Event
from topology.base.outcome import Malformed
from topology.config import HeaderConfig
from topology.records.header_reader import HeaderReader

pytestmark = SPARK

STAMPS = """
    1700000000123456789 -5 +5 -0 007 x
    -9223372036854775808 -9223372036854775807 9223372036854775808
    2024-02-29T12:00:00.123456789Z 2023-02-29T12:00:00Z 2024-01-01T24:00:00Z
    1970-01-01T00:00:00+01:30 1969-12-31t23:59:59.5-00:30 0001-01-01T00:00:00Z
    1677-09-21T00:12:43.145224192Z 1677-09-21T00:12:43.145224193Z
    2262-04-11T23:47:16.854775807Z 2262-04-11T23:47:16.854775808Z
"""
VALUES: dict[str, list[bytes | None]] = {
    "sourceId": [b"s1", b"", None, b"\xff", "ä".encode(), b"x" * 256, b"x" * 257],
    "seqNum": [
        *(b"7", b"007", b"-7", b"", None, b"1.5", b" 7", b"7\n", b"9223372036854775807"),
        *(b"+7", b"-0", b"0", b"7.0", b"7L", "\u0667".encode()),
    ],
    "streamId": [b"default", b"", b"y" * 250, b"\xff"],
    "epoch": [b"0", b"3", b"-1", b"x", b"9223372036854775808", b"0" * 30 + b"5"],
    "ts": [b"", *map(str.encode, STAMPS.split())],
    "type": [b"A", b"", b"\xff", None],
    "kind": [b"heartbeat", b"bye", b"", b"watermark", None],
    "other": [b"1"],
}
GOOD: dict[str, bytes] = {"sourceId": b"s1", "seqNum": b"7"}


def seeded_headers(seed: int) -> list[tuple[str, bytes | None]]:
    dice = random.Random(seed)
    headers: list[tuple[str, bytes | None]] = []
    for name, values in VALUES.items():
        needed = name in GOOD
        if dice.random() < (0.97 if needed else 0.4):
            value = GOOD.get(name) if needed and dice.random() < 0.6 else dice.choice(values)
            headers.append((name, value))
            if dice.random() < 0.03:
                headers.append((name, dice.choice(values)))
    dice.shuffle(headers)
    return headers


def list_single_values() -> list[list[tuple[str, bytes | None]]]:
    """Return headers with each value of the table in turn; all others are good."""
    found: list[list[tuple[str, bytes | None]]] = []
    for name, values in VALUES.items():
        others: list[tuple[str, bytes | None]] = [(n, v) for n, v in GOOD.items() if n != name]
        found.extend([*others, (name, value)] for value in values)
    return found


def said(item: Event | Malformed) -> tuple[object, ...]:
    if isinstance(item, Malformed):
        return (item.reason.replace("ts_huge", "ts"),)
    epoch = None if item.epoch == NO_EPOCH else item.epoch
    names = (item.stream, item.source, epoch, item.seq, item.ts_ns, item.type, item.kind)
    return (None, *names)


def read(row: SparkRow) -> tuple[object, ...]:
    if row.fault is not None:
        return (row.fault.replace("ts_huge", "ts"),)
    return None, row.stream, row.source, row.epoch, row.seq, row.ts_ns, row.type, row.kind


def test_raw_rows_match_the_reader(spark: SparkSession) -> None:
    """Spark's decoder and HeaderReader give the same rows and the same faults."""
    headers = list_single_values() + [seeded_headers(seed) for seed in range(400)]
    records = [
        Record(None, b"", found, offset, 1_000 + offset) for offset, found in enumerate(headers)
    ]
    reader = HeaderReader(HeaderConfig())
    expected = [
        said(reader.read(r.headers, r.stamp_ms * MS, 0, r.offset, None, None)) for r in records
    ]
    rows = decode.decode_raw(frame(spark, records), HeaderConfig()).orderBy("offset").collect()
    wrong = [
        (record.headers, want, read(row))
        for record, want, row in zip(records, expected, rows, strict=True)
        if want != read(row)
    ]
    assert wrong == []
    faults = {row.fault for row in rows}
    assert len(faults) > 12  # the table covers most faults
    assert sum(row.fault is None for row in rows) > 50


def test_ordered_rows_match_events(spark: SparkSession) -> None:
    events = []
    for number in range(20):
        event = Event("default", f"s{number % 3}", number % 2, number, BEGIN_NS + number, 0)
        event.type = "A" if number % 2 else ""
        event.ref_time_ns = BEGIN_NS + 7 * number - 3
        event.error_ns, event.segment, event.at_ns = 11 * number, number % 4, BEGIN_NS + number
        event.late = "gap" if number == 5 else ""
        events.append(event)
    events.append(watermark(BEGIN_NS + 999, BEGIN_NS + 1_000))
    rows = decode.decode_ordered(frame(spark, ordered_records(events)), HeaderConfig())
    found = decode.split(rows)
    names = ["stream", "source", "epoch", "seq", "type", "ts_ns", "error_ns", "segment", "at_ns"]
    rows_found = found.events.orderBy("offset").select(*names, "late", "ref_ns").collect()
    assert [tuple(row) for row in rows_found] == [
        (*(getattr(event, name) for name in names), event.late, event.ref_time_ns)
        for event in events[:-1]
    ]
    control = found.control.select("kind", "ref_ns", "complete_ns").collect()
    assert [tuple(row) for row in control] == [("watermark", BEGIN_NS + 999, BEGIN_NS + 999)]
    micros = found.events.where("seq = 1").select(F.unix_micros("ref_time")).collect()
    assert micros[0][0] == (BEGIN_NS + 4) // 1_000
    assert found.bad.count() == 0


def test_foreign_record_has_a_reason(spark: SparkSession) -> None:
    good = ordered_records([Event("default", "s", 0, 1, BEGIN_NS, BEGIN_NS)])[0]
    without = [h for h in good.headers if h[0] != "at"]
    spoilt = [*without, ("at", b"soon")]
    nameless = [h for h in good.headers if h[0] != "sourceId"]
    records = [
        good._replace(headers=headers, offset=offset)
        for offset, headers in enumerate([good.headers, without, spoilt, nameless, []])
    ]
    found = decode.split(decode.decode_ordered(frame(spark, records), HeaderConfig()))
    bad = found.bad.orderBy("offset").select("offset", "reason", "detail").collect()
    assert [(row.offset, row.reason) for row in bad] == [
        (1, "stamp_missing"),
        (2, "stamp_unreadable"),
        (3, "source_missing"),
        (4, "stamp_missing"),
    ]
    assert "`soon`" in bad[1].detail
    assert found.events.count() == 1


def test_costly_columns_are_computed_once(spark: SparkSession) -> None:
    """Filters stay above the projections that look for headers and parse JSON."""
    records = frame(spark, ordered_records([Event("default", "s", 0, 1, BEGIN_NS, BEGIN_NS)]))
    decoded = decode.decode_ordered(records, HeaderConfig())
    rows = decode.select_sound(payload.with_payload(decoded, payload.schema_of("v DOUBLE")))
    said = results.decode(records).events
    for found, dear in ((rows, "array_position"), (rows, "from_json"), (said, "from_json")):
        java: Any = found._jdf
        plan = java.queryExecution().optimizedPlan().toString().splitlines()
        assert [line for line in plan if dear in line]
        assert [line for line in plan if "Filter" in line]
        assert [line for line in plan if "Filter" in line and dear in line] == []


def test_payloads_are_read_by_schema(spark: SparkSession) -> None:
    values = [b'{"v": 1.5, "who": "a", "x": 1}', b'{"who": "b"}', b"{", b'{"v": "much"}', b"", None]
    event = ordered_records([Event("default", "s", 0, 1, BEGIN_NS, BEGIN_NS)])[0]
    records = [event._replace(value=v, offset=n) for n, v in enumerate(values)]
    decoded = decode.decode_ordered(frame(spark, records), HeaderConfig())
    rows = payload.with_payload(decoded, payload.schema_of("v DOUBLE, who STRING"))
    got = [
        (row.offset, None if row.payload is None else tuple(row.payload), row.fault)
        for row in rows.orderBy("offset").collect()
    ]
    assert got == [
        (0, (1.5, "a"), None),
        (1, (None, "b"), None),
        (2, None, "payload_unreadable"),
        (3, None, "payload_unreadable"),
        (4, None, "payload_unreadable"),
        (5, None, None),
    ]
    with pytest.raises(payload.SchemaRefused, match="write it like"):
        payload.schema_of("v DOUBEL")
    for text, name in (
        ("v INT, v INT", "v"),
        ("who STRING, Who INT", "Who"),
        ("a ARRAY<STRUCT<b: INT, b: INT>>", "a.b"),
        ("m MAP<STRING, STRUCT<k: INT, K: INT>>", "m.K"),
    ):
        with pytest.raises(payload.SchemaRefused, match=rf"names {name} twice .* each field once"):
            payload.schema_of(text)
