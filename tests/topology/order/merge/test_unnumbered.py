"""Examples for MERGE of sources without sequence numbers, in ms."""

from __future__ import annotations

from typing import Any

from topology.base.event import BLOCKED, DATA, DEAD, UNBLOCKED, WATERMARK, Event
from topology.base.location import LOST
from topology.base.outcome import Step
from topology.config import MergeConfig, ReorderConfig
from topology.order.merge.operator import Merge

MS = 1_000_000
CORRECT_FOR = 1_000


def event(ts: int, at: int, number: int, source: str = "a", kind: str = DATA) -> Event:
    made = Event("default", source, 0, number, ts * MS, at * MS, kind=kind)
    made.arrival_ns = min(at, ts + 1) * MS if kind == DATA else at * MS
    return made


def merge(*, numbered: bool = False) -> Merge:
    return Merge(
        "default",
        MergeConfig(
            max_wait_ns=20 * MS,
            idle_after_ns=10_000 * MS,
            heartbeat_ns=10 * MS,
            correct_for_ns=CORRECT_FOR * MS,
            reorder=ReorderConfig(rule="miss" if numbered else "time"),
        ),
    )


def numbers_of(operator: Merge, source: str) -> tuple[int, int, list[int]]:
    """Return a source's newest epoch and number, and its missing numbers."""
    known: Any = operator.locate(source, 0, 0)
    found = {number: operator.locate(source, 0, number) for number in range(known["newest"])}
    missing = [number for number, each in found.items() if each and each["where"] == LOST]
    return known["newest_epoch"], known["newest"], missing


def left(step: Step) -> list[tuple[str, int]]:
    return [(one.source, one.ts_ns // MS) for one in step.released if one.kind == DATA]


def steady(*, numbered: bool) -> list[Event]:
    """Return the watermarks for two sources that are in order, without a gap."""
    operator = merge(numbered=numbered)
    said: list[Event] = []
    for n in range(400):
        at = 5_000 + 5 * n
        source = "ab"[n % 2]
        step = operator.on_batch([event(at - 1, at, n // 2, source)], at * MS)
        said += [one for one in step.released if one.kind == WATERMARK]
    return said


def test_stream_is_complete_after_lateness() -> None:
    numbered, by_time = steady(numbered=True), steady(numbered=False)
    assert max(one.complete_ns for one in numbered) > 6_900 * MS
    assert max(one.ref_time_ns for one in by_time) > 6_900 * MS
    for one in by_time:
        assert one.complete_ns <= one.ref_time_ns - CORRECT_FOR * MS
    assert max(one.complete_ns for one in by_time) > 5_900 * MS


def test_restart_does_not_repeat_watermark() -> None:
    """A watermark precedes the first event, and does not come again after a restart."""
    operator = merge()
    step = operator.on_batch([event(100, 101, 0), event(103, 104, 1)], 104 * MS)
    emitted = [(one.kind, one.ref_time_ns // MS, one.complete_ns // MS) for one in step.released]
    assert emitted == [(WATERMARK, 100, 100 - CORRECT_FOR), (DATA, 100, 0)]
    again = merge()
    held = list(operator.iter_held())
    again.restore(operator.snapshot(), held)
    later = again.on_batch([event(104, 105, 2)], 106 * MS)
    assert [one.kind for one in later.released] == [DATA, DATA]


def test_event_does_not_end_block() -> None:
    operator = merge()
    operator.on_batch([event(100, 101, 0, "a"), event(100, 101, 0, "b")], 101 * MS)
    operator.on_batch([event(0, 110, 1, "a", BLOCKED)], 110 * MS)
    operator.on_batch([event(105, 112, 1, "a"), event(150, 151, 1, "b")], 151 * MS)
    assert left(operator.on_time(1_000 * MS)) == []  # `a` may still send an event before 150.
    operator.on_batch([event(120, 1_001, 2, "a"), event(0, 1_001, 3, "a", UNBLOCKED)], 1_001 * MS)
    assert left(operator.on_time(1_100 * MS)) == [("a", 120), ("b", 150)]


def test_dead_letter_does_not_end_block() -> None:
    operator = merge()
    operator.on_batch([event(100, 101, 0, "a"), event(0, 101, 1, "a", BLOCKED)], 101 * MS)
    operator.on_batch([event(0, 103, 1, "a", DEAD), event(150, 151, 0, "b")], 151 * MS)
    assert left(operator.on_time(1_000 * MS)) == []


def test_late_event_leaves_no_gap() -> None:
    operator = merge()
    late = event(90, 103, 1)
    late.late = "overtaken"
    operator.on_batch([event(100, 101, 0), late, event(110, 111, 2), event(120, 121, 3)], 121 * MS)
    assert numbers_of(operator, "a") == (0, 3, [])


def test_late_event_takes_no_second_number() -> None:
    operator = merge()
    operator.on_batch([event(100, 101, 0), event(100, 101, 0, "b")], 101 * MS)
    operator.on_batch([event(200, 201, 1)], 201 * MS)
    operator.on_time(400 * MS)
    step = operator.on_batch([event(150, 401, 1, "b"), event(500, 501, 2, "b")], 501 * MS)
    assert [one.late for one in step.released if one.ts_ns == 150 * MS] == ["merge_wait"]
    assert numbers_of(operator, "b") == (0, 2, [])
