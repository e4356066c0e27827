"""Examples: records become events in the inlet of a stage, unless they are too large."""

from __future__ import annotations

from random import Random

import msgspec
import pytest

from agents.stage.arrival import NS_PER_MS, ArrivalClock
from agents.stage.inlet import (
    HEADER_FRAMING_BYTES,
    MAX_CHARACTER_BYTES,
    RawInlet,
    SequencedInlet,
    UnknownPartition,
    largest_size,
)
from agents.stage.outbox import Headers
from agents.state.held import notes_of
from agents.state.notes import Note, apply_note
from tests.agents.records import SOUND, FakeRecord
from topology.base.event import DEAD, PROGRESS, Event
from topology.config import HeaderConfig
from topology.records.checker import Reading
from topology.records.header_reader import HeaderReader
from topology.records.header_writer import HeaderWriter
from topology.stage.registry import FIRST_PLACE

MAX = 1_000
READER = HeaderReader(HeaderConfig())
BY_DEFAULT = frozenset({"default"})


def raw(max_record_bytes: int = MAX) -> RawInlet:
    return RawInlet(READER, max_record_bytes)


def test_record_becomes_an_event() -> None:
    """An event's arrival is the running maximum of the records' timestamps."""
    clock = ArrivalClock(0)
    records = [FakeRecord(3), FakeRecord(4, timestamp=5)]
    read = raw().read(records, clock)
    assert read.dead == []
    first, second = read.events
    assert (first.source, first.seq, first.ts_ns, first.offset) == ("s1", 7, 5_000_000, 3)
    assert first.record is records[0]
    assert (first.arrival_ns, second.arrival_ns) == (6 * NS_PER_MS, 6 * NS_PER_MS)
    assert clock.now_ns == 6 * NS_PER_MS
    (timeless,) = raw().read([FakeRecord(headers=SOUND[:2])], ArrivalClock(0)).events
    assert timeless.ts_ns == 6 * NS_PER_MS, "its record's own time"


def records_with_wrong_hour() -> list[FakeRecord]:
    """Return records 10 ms apart, some without a readable time.

    From record 1,000 on the broker is an hour ahead, for 10 s.
    """
    records = []
    for i in range(3_000):
        ts_ms = 1_790_000_000_000 + 10 * i
        headers: Headers = (*SOUND[:2], ("ts", b"%d" % (ts_ms * NS_PER_MS) if i % 50 else b"x"))
        ahead_ms = 3_600_000 if 1_000 <= i < 2_000 else 0
        records.append(FakeRecord(i, headers, timestamp=ts_ms + 5 + ahead_ms))
    return records


def test_hour_ahead_moves_no_arrival() -> None:
    clock = ArrivalClock(0)
    read = raw().read(records_with_wrong_hour(), clock)
    for event in read.events:
        if event.kind != DEAD:
            assert abs(event.arrival_ns - event.ts_ns) <= 10 * NS_PER_MS
        assert event.at_ns == event.arrival_ns
    assert [dead.at_ns for dead in read.dead] == [e.at_ns for e in read.events if e.kind == DEAD]
    assert clock.fault() == ""


def test_timeless_records_spoil_no_arrival() -> None:
    """A record without its own time gets the broker's timestamp, which proves nothing."""
    records = records_with_wrong_hour()
    for record in records[7::10]:
        record.headers = SOUND[:2]
    events = raw().read(records, ArrivalClock(0)).events
    timed = [event for event in events if event.kind != DEAD and len(event.record.headers) > 2]
    assert max(abs(event.arrival_ns - event.ts_ns) for event in timed) <= 10 * NS_PER_MS


@pytest.mark.parametrize("seed", range(5))
def test_law_batching_keeps_arrivals(seed: int) -> None:
    rng = Random(seed)
    records = records_with_wrong_hour()
    whole = raw().read(records, ArrivalClock(0)).events
    clock, events = ArrivalClock(0), []
    while records:
        size = rng.choice([1, 10, 700])
        events += raw().read(records[:size], clock).events
        assert clock.log.now_ns == clock.now_ns, "what passed in one piece was noted too"
        records = records[size:]
        restored = ArrivalClock(0)
        restored.restore(clock.snapshot())
        clock = restored
    assert [event.arrival_ns for event in events] == [event.arrival_ns for event in whole]


@pytest.mark.parametrize("ahead_ms", [0, 3_600_000])
def test_doubted_clock_keeps_ticks(ahead_ms: int) -> None:
    """Either this machine's clock is right, or it is as wrong as the broker's."""
    clock = ArrivalClock(0)
    raw().read(records_with_wrong_hour()[:1_500], clock)
    begun_ns = clock.now_ns
    assert "stepped ahead by 3600 s" in clock.fault()
    assert clock.tick(begun_ns + (2_000 + ahead_ms) * NS_PER_MS)
    assert clock.now_ns - begun_ns == pytest.approx(2_000 * NS_PER_MS, abs=20 * NS_PER_MS)


@pytest.mark.parametrize(
    ("headers", "reason", "holds_place"),
    [(SOUND[1:], "source_missing", False), ((*SOUND[:2], ("ts", b"x")), "ts_unreadable", True)],
)
def test_dead_letter_keeps_its_place(headers: Headers, reason: str, holds_place: bool) -> None:
    """A dead letter without a source has no place to keep."""
    read = raw().read([FakeRecord(9, headers)], ArrivalClock(0))
    assert [dead.reason for dead in read.dead] == [reason]
    assert [(e.kind, e.seq, e.offset) for e in read.events] == [(DEAD, 7, 9)] * holds_place
    again = raw().read_again([FakeRecord(9, headers)])
    assert [(e.kind, e.seq, e.offset) for e in again] == [(DEAD, 7, 9)] * holds_place


def test_reread_record_keeps_number() -> None:
    """Under `rule: time` the number is the offset and needs no note.

    REORDER renumbers the event when it emits it.
    """
    inlet = RawInlet(HeaderReader(HeaderConfig(), Reading(BY_DEFAULT)), MAX)
    record = FakeRecord(31, SOUND[:1])
    (event,) = inlet.read([record], ArrivalClock(0)).events
    (again,) = inlet.read_again([record])
    apply_note(again, msgspec.convert(notes_of([event], {event: FIRST_PLACE})[0], Note))
    assert (again.seq, again.epoch) == (31, event.epoch)
    assert (again.ts_ns, again.ref_time_ns, again.at_ns) == (event.ts_ns, event.ts_ns, event.at_ns)
    # REORDER has emitted it, and MERGE buffers it.
    again.seq, again.epoch = 7, 0
    (later,) = inlet.read_again([record])
    apply_note(later, msgspec.convert(notes_of([again], {again: FIRST_PLACE << 2})[0], Note))
    assert (later.seq, later.epoch) == (7, 0)
    (dead,) = inlet.read([FakeRecord(9, (SOUND[0], ("ts", b"x")))], ArrivalClock(0)).dead
    assert (dead.reason, dead.seq) == ("ts_unreadable", 9), "its number is its offset, too"


def test_mixed_sources_reread_the_same() -> None:
    inlet = RawInlet(HeaderReader(HeaderConfig(), Reading(mixed=BY_DEFAULT)), MAX)
    records = [FakeRecord(9, SOUND), FakeRecord(10, SOUND[:1])]
    for events in (inlet.read(records, ArrivalClock(0)).events, inlet.read_again(records)):
        assert [event.seq for event in events] == [7, ~10]
    huge = inlet.read([FakeRecord(11, SOUND[:1], b"x" * (MAX + 1))], ArrivalClock(0))
    assert [(dead.reason, dead.seq) for dead in huge.dead] == [("record_huge", None)]
    assert huge.events == []


PLAIN = sum(HEADER_FRAMING_BYTES + 4 * len(name) + len(value or b"") for name, value in SOUND)


@pytest.mark.parametrize(
    ("record", "size"),
    [
        (FakeRecord(key=None, value=None), PLAIN),
        (FakeRecord(key=b"key", value=b"value"), PLAIN + 8),
        (FakeRecord(key=b"", value=b"", headers=[]), 0),
        (FakeRecord(key=None, value=None, headers=[("ü", None)]), HEADER_FRAMING_BYTES + 4),
    ],
)
def test_size_includes_key_and_headers(record: FakeRecord, size: int) -> None:
    assert largest_size(record) == size


ROOM = MAX - PLAIN


MORE = ("x", b"h" * (ROOM - HEADER_FRAMING_BYTES - MAX_CHARACTER_BYTES))
FULL = {
    "value": FakeRecord(9, value=b"v" * ROOM, key=None),
    "key": FakeRecord(9, value=None, key=b"k" * ROOM),
    "both": FakeRecord(9, value=b"v" * (ROOM - ROOM // 2), key=b"k" * (ROOM // 2)),
    "a header": FakeRecord(9, (*SOUND, MORE), None, None),
}


@pytest.mark.parametrize("record", FULL.values(), ids=FULL)
def test_huge_record_is_a_dead_letter(record: FakeRecord) -> None:
    assert raw().read([record], ArrivalClock(0)).dead == []
    read = raw(MAX - 1).read([record], ArrivalClock(0))
    (dead,) = read.dead
    assert (dead.reason, dead.source, dead.seq, dead.offset) == ("record_huge", "s1", 7, 9)
    assert f"{MAX} bytes" in dead.detail
    assert str(MAX - 1) in dead.detail
    assert [(event.kind, event.seq) for event in read.events] == [(DEAD, 7)]


def sequenced(lane: int, kind: str = "", at_ns: int = 40) -> FakeRecord:
    """Return a record as the upstream stage writes it."""
    event = Event("pitch", "s1", 2, 7, 30, 35, kind=kind)
    event.at_ns = at_ns
    writer = HeaderWriter(HeaderConfig())
    if kind:
        return FakeRecord(headers=writer.write_control(event, lane), value=None, key=None)
    headers = (*SOUND, ("streamId", b"pitch"), ("epoch", b"2"))
    return FakeRecord(headers=writer.stamp(event, headers, lane))


def test_sequenced_record_has_its_lane() -> None:
    clock = ArrivalClock(0)
    inlet = SequencedInlet(READER, upstream_partitions=4)
    read = inlet.read([sequenced(3), sequenced(1, PROGRESS)], clock)
    event, progress = read.events
    assert (event.stream, event.epoch, event.lane) == ("pitch", 2, 3)
    assert (event.arrival_ns, event.at_ns, event.ref_time_ns) == (35, 40, 30)
    assert (progress.kind, progress.lane, progress.at_ns) == (PROGRESS, 1, 40)
    (again,) = inlet.read_again([sequenced(3)])
    assert (again.lane, again.at_ns) == (3, 40)


def test_unknown_lane_is_an_error() -> None:
    with pytest.raises(UnknownPartition, match="upstream partition 4.*were 4 when.*restart"):
        SequencedInlet(READER, upstream_partitions=4).read([sequenced(4)], ArrivalClock(0))
