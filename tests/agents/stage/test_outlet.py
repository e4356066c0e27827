"""Examples: the record and the topic for each output of a stage, and the batches of an outbox."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson
import pytest

from agents.stage.outbox import Outbox
from agents.stage.outlet import (
    OrderedOutlet,
    ResultOutlet,
    SequencedOutlet,
    SideOutlet,
    partition_of,
)
from tests.agents.records import SOUND, FakeBatch, FakeRecord, Put, put_into, taken
from tests.sinks.written import WRITTEN
from topology.base.event import BLOCKED, HEARTBEAT, PROGRESS, WATERMARK, Event
from topology.base.outcome import Duplicate, Gap, Late, Malformed, Report
from topology.base.result import Member, Overflow, Result
from topology.config import HeaderConfig
from topology.config.file import TopicsConfig
from topology.records.header_writer import HeaderWriter
from topology.records.json_lines import encode_line, make_result_line

WRITER = HeaderWriter(HeaderConfig())
TARGETS = {"pitch": ("out", 3), "court": ("out", 1), "field": ("out", 3)}
TOPICS = TopicsConfig()
PARTITIONS = {TOPICS.gaps: 8, TOPICS.dead: 8, TOPICS.late: 8}
MS = 1_000_000


def event(stream: str = "pitch", kind: str = "", **fields: Any) -> Event:
    made = Event(stream, "s1", 0, 7, 5 * MS, 6 * MS, offset=4, record=FakeRecord(4), kind=kind)
    for name, value in fields.items():
        setattr(made, name, value)
    return made


HASHES = {
    "21": -973_932_308,
    "foobar": -790_332_482,
    "abc": 479_470_107,
    "a-little-bit-long-string": -985_981_536,
}


@pytest.mark.parametrize(("stream", "murmur2"), HASHES.items())
def test_partition_matches_kafka(stream: str, murmur2: int) -> None:
    """These hashes are from Kafka's own tests of its Java client (UtilsTest)."""
    for partitions in (1, 8, 10_000):
        assert partition_of(stream, partitions) == (murmur2 & 0x7FFFFFFF) % partitions


def sequenced(what: Event) -> tuple[tuple[str, int], Put]:
    outbox = Outbox(FakeBatch)
    SequencedOutlet(WRITER, TARGETS, 5).put(what, outbox)
    (found,) = taken(outbox)
    return found


def test_sequenced_event_keeps_record() -> None:
    target, put = sequenced(event(at_ns=9 * MS))
    assert target == ("out", 3)
    assert (put.key, put.value, put.timestamp) == (b"s1", b"{}", 6)
    assert put.headers[: len(SOUND)] == list(SOUND)
    assert (put.header("lane"), put.header("at")) == (b"5", b"%d" % (9 * MS))
    assert sequenced(event(record=FakeRecord(timestamp=-1)))[1].timestamp == 0, "it has no time"


def test_blocked_record_has_no_value() -> None:
    _, heartbeat = sequenced(event(kind=HEARTBEAT))
    assert heartbeat.value == b"{}"
    assert heartbeat.headers[: len(SOUND)] == list(SOUND)
    target, blocked = sequenced(event("court", kind=BLOCKED, record=None))
    assert target == ("out", 1)
    assert (blocked.key, blocked.value, blocked.timestamp) == (b"s1", None, 0)
    assert (blocked.header("kind"), blocked.header("lane")) == (b"blocked", b"5")


def test_progress_reaches_used_partitions() -> None:
    outbox = Outbox(FakeBatch)
    SequencedOutlet(WRITER, TARGETS, 5).progress(8 * MS, outbox)
    found = taken(outbox)
    assert [target for target, _ in found] == [("out", 1), ("out", 3)]
    for _, put in found:
        assert (put.key, put.value) == (None, None)
        assert (put.header("kind"), put.header("at")) == (PROGRESS.encode(), b"%d" % (8 * MS))


def test_ordered_topic_has_no_heartbeats() -> None:
    outbox = Outbox(FakeBatch)
    outlet = OrderedOutlet(WRITER, TARGETS)
    outlet.put(event(ref_time_ns=3 * MS, late="gap"), outbox)
    outlet.put(event(kind=HEARTBEAT), outbox)
    times: dict[str, Any] = {"ref_time_ns": 8 * MS, "complete_ns": 2 * MS, "error_ns": 5}
    outlet.put(event(kind=WATERMARK, record=None, **times), outbox)
    outlet.put(event(ref_time_ns=-3 * MS), outbox)
    outlet.progress(8 * MS, outbox)
    (_, passed), (_, watermark), (_, ancient) = taken(outbox)
    assert (passed.key, passed.value, passed.timestamp) == (b"s1", b"{}", 3)
    assert (passed.header("refTs"), passed.header("late")) == (b"%d" % (3 * MS), b"gap")
    assert (watermark.key, watermark.value, watermark.timestamp) == (b"pitch", None, 8)
    assert [watermark.header(each) for each in ("err", "refTs", "complete")] == [
        *(b"5", b"8000000", b"2000000")
    ]
    assert (ancient.timestamp, ancient.header("refTs")) == (0, b"%d" % (-3 * MS))


def side_records(report: Report, late: str = "pass") -> list[tuple[tuple[str, int], Put]]:
    """Return the records that the side outlet writes for the report."""
    outbox = Outbox(FakeBatch)
    SideOutlet([("raw", 2)], TOPICS, PARTITIONS, {"pitch": late}).put(report, outbox)
    return taken(outbox)


def test_gap_is_json() -> None:
    ((target, put),) = side_records(Gap(9, "pitch", "s1", 0, 3, 5, "timeout", 8, 1, 2))
    assert target == (TOPICS.gaps, partition_of("pitch", 8))
    assert (put.key, put.timestamp, put.headers) == (b"s1", None, [])
    document = orjson.loads(put.value or b"")
    assert (document["kind"], document["first"], document["last"]) == ("gap", 3, 5)


def test_dead_letter_has_no_payload() -> None:
    dead = Malformed(9, 17, "seq_missing", "write it", None, "s1", record=FakeRecord(value=b"xyz"))
    ((target, put),) = side_records(dead)
    assert target == (TOPICS.dead, partition_of("", 8))
    assert orjson.loads(put.value or b"") == {
        "kind": "dead",
        "stream": None,
        "source": "s1",
        "epoch": None,
        "seq": None,
        "reason": "seq_missing",
        "at": 9,
        "detail": "write it",
        "topic": "raw",
        "partition": 2,
        "offset": 17,
    }
    assert side_records(Malformed(9, 17, "source_missing", "…"))[0][1].key == b""


@pytest.mark.parametrize(
    ("reason", "policy", "written"),
    [
        ("gap", "side", True),
        ("gap", "drop", False),
        ("beyond_memory", "drop", True),
        ("before_start", "drop", True),
        ("old_epoch", "pass", True),
    ],
)
def test_late_topic_depends_on_policy(reason: str, policy: str, written: bool) -> None:
    found = side_records(Late(9, event(), reason), policy)
    assert len(found) == written
    assert side_records(Duplicate(9, event(), conflict=True)) == [], "it is counted only"
    for target, put in found:
        assert target == (TOPICS.late, partition_of("pitch", 8))
        assert (put.key, put.value, put.timestamp) == (b"s1", b"{}", 6)
        assert put.headers == [*SOUND, ("reason", reason.encode())]


RESULTS = {"window": ("results.windows", 3), "pattern": ("results.matches", 3)}


def result_put(found: Result | Overflow, *tables: str) -> tuple[tuple[str, int], Put]:
    outbox = Outbox(FakeBatch)
    ResultOutlet(RESULTS, {query: (f"results.{query}", 3) for query in tables}).put(found, outbox)
    (found_put,) = taken(outbox)
    return found_put


@pytest.mark.parametrize("op", ["emit", "update", "retract"])
def test_table_retraction_is_a_tombstone(op: str) -> None:
    window = replace(WRITTEN[0], op=op)
    target, put = result_put(window)
    assert target == ("results.windows", partition_of("i", 3))
    assert (put.key, put.value, put.headers) == (b"i", encode_line(make_result_line(window)), [])
    target, put = result_put(window, "q")
    assert (target, put.key) == (("results.q", partition_of("i", 3)), b"i")
    if op != "retract":
        assert (put.value, put.headers) == (encode_line(make_result_line(window)), [])
        return
    assert put.value is None
    assert dict(put.headers) == {
        "op": b"retract",
        "query": b"q",
        "revision": b"3",
        "confidence": b"uncertain",
        "stream": b"pitch",
        "start": b"10",
        "end": b"20",
        "at": b"5",
        "final": b"true",
    }


def test_overflow_is_no_table_row() -> None:
    target, put = result_put(Overflow(7, "pitch", "q", Member("b", "s1", 0, 5, 3), 2), "q")
    assert (target[0], put.key, put.headers) == ("results.matches", b"q", [("kind", b"overflow")])


# -- the outbox --------------------------------------------------------------------------------


RAW, LATE = ("raw", 0), ("late", 3)


def test_batches_keep_order_by_target() -> None:
    outbox = Outbox(lambda: FakeBatch(room=2))
    for number in range(5):
        outbox.add(RAW, b"k", b"%d" % number, number, [("h", b"1")])
        if number == 1:
            outbox.add(LATE, None, None, None, [])
    assert (outbox.records, outbox.bytes) == (6, 5)
    batches = outbox.take()
    assert [len(batch.records) for batch in batches[RAW]] == [2, 2, 1]
    assert [batch.closed for batch in batches[RAW]] == [True, True, False]
    assert [put.value for put in put_into(batches[RAW])] == [b"0", b"1", b"2", b"3", b"4"]
    (late,) = put_into(batches[LATE])
    assert (late.key, late.value, late.timestamp, late.headers) == (None, None, None, [])
    assert (outbox.records, outbox.bytes, outbox.take()) == (0, 0, {})
    outbox.add(RAW, None, b"anew", 0, [])
    assert [put.value for put in put_into(outbox.take()[RAW])] == [b"anew"]
    assert len(put_into(batches[RAW])) == 5, "what was taken stays as it is"


def test_record_without_room_fails() -> None:
    with pytest.raises(ValueError, match="raw"):
        Outbox(lambda: FakeBatch(room=0)).add(RAW, None, b"", 0, [])
