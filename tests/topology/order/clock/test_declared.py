"""Examples: wrong declared offsets do little harm to their source, and none to others.

A time is a number of milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from benchmarks.published.clock import RoundTripClock
from topology.base.event import Event
from topology.base.outcome import Malformed
from topology.base.sample import Declared, Sample
from topology.config import ClockConfig
from topology.order.clock.drift_table import DriftTable
from topology.order.clock.operator import Clock
from topology.records.clock_words import MAX_DECLARED_ERROR_NS, MAX_OFFSET_NS

MS = 1_000_000
S = 1_000
HOUR = 3_600 * S
NOW = 1_700_000_000 * S
POLICIES = ("estimate", "trust", "reject")
HUGE = 1 << 62


def clock(unsynced: Any, *words: Declared | Sample) -> Clock:
    table = DriftTable()
    for word in words:
        table.add(word)
    return Clock(ClockConfig(unsynced=unsynced, max_sources=10), table)


def declared(offset_ns: int | None, error_ns: int = 0, at: int = 0, place: int = 1) -> Declared:
    return Declared("s", at * MS, offset_ns, error_ns, at * MS, place)


def steady(count: int, source: str = "s", since: int = NOW) -> list[Event]:
    """Return ten events a second of a correct clock, each 5 ms on the way."""
    stamps_ns = [(since + 100 * seq) * MS for seq in range(count)]
    return [
        Event("default", source, 0, seq, ts_ns, ts_ns + 5 * MS, offset=seq)
        for seq, ts_ns in enumerate(stamps_ns)
    ]


def stamped(operator: Clock, events: Iterable[Event]) -> tuple[list[Event], list[Malformed]]:
    out, dead = [], []
    for each in events:
        step = operator.on_batch([each], each.at_ns)
        out += [event for event in step.released if not event.kind]
        dead += [report for report in step.reports if isinstance(report, Malformed)]
    return out, dead


@pytest.mark.parametrize("unsynced", POLICIES)
@pytest.mark.parametrize(
    ("offset_ns", "error_ns"),
    [
        (HUGE, HUGE),
        (HUGE, 0),
        (-HUGE, HUGE),
        (HOUR * MS, HOUR * MS),
        (HOUR * MS, 0),
        (2 * S * MS, 10 * S * MS),
        (-HUGE, 0),
    ],
)
def test_arrival_bounds_corrected_time(unsynced: Any, offset_ns: int, error_ns: int) -> None:
    operator = clock(unsynced, declared(offset_ns, error_ns))
    out, dead = stamped(operator, steady(50))
    assert len(out) + len(dead) == 50
    assert all(each.ref_time_ns <= each.arrival_ns + S * MS for each in out)
    assert {each.reason for each in dead} <= {"unsynced", "behind"}
    if unsynced != "reject":
        assert not dead


@pytest.mark.parametrize("unsynced", ["estimate", "trust"])
def test_refuted_offset_is_dropped(unsynced: Any) -> None:
    """Three events in a row refute the offset. Until then their timestamps follow the policy."""
    operator = clock(unsynced, declared(HOUR * MS))
    out, _ = stamped(operator, steady(20))
    assert operator.jumps == 1
    assert [each.ref_time_ns for each in out[3:]] == [each.ts_ns for each in out[3:]]
    assert operator.explain()["clocks"][0]["state"] == "broken"


def test_uncertain_offset_is_limited() -> None:
    """A declared offset is two seconds ahead, give or take ten. Corrected timestamps are at most a
    second after their arrival, and their errors keep the lower bound.
    """
    operator = clock("estimate", declared(2 * S * MS, 10 * S * MS))
    out, _ = stamped(operator, steady(5))
    for each in out:
        assert each.ref_time_ns == each.arrival_ns + S * MS
        assert each.ref_time_ns - each.error_ns == each.ts_ns - 8 * S * MS
    assert operator.contradicted == operator.jumps == 0


@pytest.mark.parametrize("unsynced", ["estimate", "trust"])
def test_retracted_offset_begins_segment(unsynced: Any) -> None:
    words = (declared(HOUR * MS, HOUR * MS), declared(None, at=NOW + 2 * S, place=2))
    out, dead = stamped(clock(unsynced, *words), steady(60))
    assert (len(out), dead) == (60, [])
    before, after = out[:20], out[20:]
    assert {each.segment for each in before}.isdisjoint(each.segment for each in after)
    # Corrected timestamps of a source never fall, so making up for a second takes a second.
    assert all(each.ref_time_ns == each.ts_ns for each in after[12:])
    for each in after:
        assert abs(each.ref_time_ns - each.ts_ns) <= each.error_ns


def test_only_new_offset_begins_segment() -> None:
    """An equal offset with a larger error counts as new, because the true offset can differ by both
    errors.
    """
    words = (
        declared(-7 * MS, MS),
        declared(-7 * MS, MS, at=NOW + S, place=2),
        declared(-8 * MS, MS, at=NOW + 2 * S, place=3),
        declared(-8 * MS, 2 * MS, at=NOW + 3 * S, place=4),
    )
    out, _ = stamped(clock("trust", *words), steady(40))
    assert [each.segment for each in out] == [0] * 20 + [1] * 10 + [2] * 10


@pytest.mark.parametrize("unsynced", POLICIES)
def test_other_sources_are_unchanged(unsynced: Any) -> None:
    words = (declared(HUGE, HUGE), declared(HUGE, 0, place=2))
    mixed = [each for pair in zip(steady(30), steady(30, "t"), strict=True) for each in pair]
    out, _ = stamped(clock(unsynced, *words), mixed)
    alone, _ = stamped(clock(unsynced), steady(30, "t"))

    def rendered(events: list[Event]) -> list[tuple[int, int, int]]:
        return [(e.ref_time_ns, e.error_ns, e.segment) for e in events if e.source == "t"]

    assert rendered(out) == rendered(alone)


def test_state_keeps_refuted_offset() -> None:
    first = clock("estimate", declared(HOUR * MS))
    events = steady(40)
    stamped(first, events[:20])
    again = clock("estimate", declared(HOUR * MS))
    again.restore(first.snapshot(), ())
    assert again.snapshot() == first.snapshot()
    out, _ = stamped(again, events[20:])
    assert [each.ref_time_ns for each in out] == [each.ts_ns for each in out]


EXTREMES = (-(1 << 63), -(1 << 62), -1, 0, 1, NOW * MS, 1 << 62, (1 << 63) - 1)


@pytest.mark.parametrize("unsynced", POLICIES)
@pytest.mark.parametrize("made", [Clock, RoundTripClock])
def test_extremes_stay_in_64_bits(unsynced: Any, made: type[Clock]) -> None:
    """Each event is emitted or becomes a dead letter; emitted ones can be written and read."""
    for ahead in EXTREMES:
        table = DriftTable()
        for i, behind in enumerate(EXTREMES):
            times = (ahead, behind, behind, ahead)
            table.add(Sample("s", *times, NOW * MS + i, i))
            for j in range(3):
                t1 = max(-(1 << 63), ahead - 5)
                table.add(Sample("s", t1, behind, behind, ahead, NOW * MS + 10 * i + j, i))
        for i, offset in enumerate(EXTREMES):
            if abs(offset) <= MAX_OFFSET_NS:
                at = (NOW + 2 * S + 50 * i) * MS
                table.add(Declared("s", at, offset, MAX_DECLARED_ERROR_NS, at, i))
        operator = made(ClockConfig(unsynced=unsynced, max_sources=10), table)
        events = []
        for seq in range(100):
            ts_ns = EXTREMES[seq * 7 % len(EXTREMES)]
            arrival_ns = (NOW + 50 * seq) * MS
            events.append(Event("default", "s", 0, seq, ts_ns, arrival_ns, offset=seq))
        out, dead = stamped(operator, events)
        assert len(out) + len(dead) == 100
        for each in out:
            assert -(1 << 63) <= each.ref_time_ns <= each.arrival_ns + HOUR * MS
            assert 0 <= each.error_ns < 1 << 63
            assert 0 <= each.segment < 1 << 63
        state = msgspec.msgpack.encode(operator.snapshot())
        again = made(ClockConfig(unsynced=unsynced, max_sources=10), table)
        again.restore(msgspec.msgpack.decode(state), ())
        assert msgspec.msgpack.encode(again.snapshot()) == state
