"""Examples for CLOCK under `unsynced: trust`. A time is a number of milliseconds."""

from __future__ import annotations

from topology.clock import Clock
from topology.description.stream import ClockConfig
from topology.event import BLOCKED, DEAD, Event
from topology.outcome import GAP, Malformed

MS = 1_000_000


def clock(max_sources: int = 10) -> Clock:
    return Clock(ClockConfig(max_ahead_ns=100 * MS), max_sources)


def event(seq: int, ts: int, arrival: int = 50, source: str = "s", kind: str = "") -> Event:
    return Event("default", source, 0, seq, ts * MS, arrival * MS, offset=seq, kind=kind)


def stamps(events: list[Event]) -> list[tuple[int, int]]:
    return [(event.ref_time_ns // MS, event.error_ns // MS) for event in events]


def test_the_source_is_taken_at_its_word() -> None:
    step = clock().on_batch([event(0, 10), event(1, 10), event(2, 12)], 50 * MS)
    assert stamps(step.released) == [(10, 0), (10, 0), (12, 0)]


def test_time_does_not_fall_within_a_source_and_the_error_says_by_how_much() -> None:
    events = [event(0, 10), event(1, 7), event(2, 9, source="other"), event(3, 11)]
    assert stamps(clock().on_batch(events, 50 * MS).released) == [(10, 0), (10, 3), (9, 0), (11, 0)]


def test_a_late_event_is_stamped_as_it_stands_and_raises_nothing() -> None:
    late = event(1, 30)
    late.late = GAP
    step = clock().on_batch([event(0, 10), late, event(2, 20)], 50 * MS)
    assert stamps(step.released) == [(10, 0), (30, 0), (20, 0)]


def test_a_stamp_too_far_ahead_of_its_own_arrival_is_dead() -> None:
    step = clock().on_batch([event(0, 150), event(1, 151), event(2, 149)], 50 * MS)
    assert [e.kind for e in step.released] == ["", DEAD, ""]  # its number is not missing
    assert stamps([step.released[0], step.released[2]]) == [(150, 0), (150, 1)]
    (dead,) = step.reports
    assert isinstance(dead, Malformed)
    assert (dead.reason, dead.seq, dead.offset) == ("ahead", 1, 1)
    assert "raise clock.max_ahead" in dead.detail


def test_what_reorder_says_of_a_source_passes() -> None:
    step = clock().on_batch([event(0, 10), event(1, 0, kind=BLOCKED)], 50 * MS)
    assert [e.kind for e in step.released] == ["", BLOCKED]


def test_the_longest_quiet_source_is_forgotten() -> None:
    operator = clock(max_sources=2)
    for arrival, source in ((50, "a"), (51, "b"), (52, "a"), (53, "c")):
        operator.on_batch([event(arrival, arrival, arrival, source)], arrival * MS)
    assert sorted(operator.snapshot()) == ["a", "c"]
    assert operator.changes()["b"] is None
