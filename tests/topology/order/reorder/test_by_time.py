"""REORDER under `rule: time`: examples, each a list of calls and values, in ms."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from tests.kit.k_slack import KSlack
from tests.topology.spelling.test_problem import refusal
from topology.answer.waiting.tail import OwnTail
from topology.base.event import BLOCKED, BYE, DATA, DEAD, HEARTBEAT, UNBLOCKED, Event
from topology.base.outcome import Duplicate, Step
from topology.config import ReorderConfig, parse
from topology.order.reorder.by_time import ReorderByTime
from topology.order.reorder.operator import FIGURES, Reorder

MS = 1_000_000


def operator(max_ahead: int | None = None, wait: int = 10, **settings: Any) -> ReorderByTime:
    config = ReorderConfig(**{"rule": "time", "max_wait": "50ms"} | settings)
    max_ahead_ns = None if max_ahead is None else max_ahead * MS
    policy = partial(KSlack, wait * MS, idle_ns=0)
    return ReorderByTime("default", config, policy, max_ahead_ns)


def event(ts: int, arrival: int, offset: int, source: str = "a", kind: str = DATA) -> Event:
    return Event("default", source, -1, offset, ts * MS, arrival * MS, offset, kind=kind)


def rendered(step: Step) -> list[tuple[Any, ...]]:
    """Return the instant, kind, source, number and time of each emitted event."""
    return [
        (one.at_ns // MS, one.late or one.kind or "event", one.source, one.seq, one.ts_ns // MS)
        for one in step.released
    ]


def data(step: Step) -> list[tuple[int, int]]:
    """Return (time, number) of the events that were emitted in order."""
    return [(e.ts_ns // MS, e.seq) for e in step.released if e.kind == DATA and not e.late]


def test_merge_learns_of_buffered_events() -> None:
    """BLOCKED comes once, and UNBLOCKED comes when nothing is buffered any more."""
    reorder = operator()
    first = reorder.on_batch([event(100, 200, 0)], 200 * MS)
    assert rendered(first) == []  # The instant is not over.
    second = reorder.on_batch([event(104, 201, 1)], 201 * MS)
    assert rendered(second) == [(200, BLOCKED, "a", 0, 0)]
    third = reorder.on_batch([event(110, 202, 2), event(111, 203, 3)], 203 * MS)
    assert rendered(third) == [(202, "event", "a", 0, 100)]  # It does not end the block.
    assert rendered(reorder.on_time(300 * MS))[-1] == (213, UNBLOCKED, "a", 4, 0)


def test_timestamp_far_ahead_is_dead() -> None:
    """Clocks are trusted here."""
    reorder = operator(max_ahead=100)
    step: Any = reorder.on_batch([event(500, 200, 3), event(200, 201, 4)], 201 * MS)
    (dead,) = step.reports
    assert (dead.reason, dead.seq) == ("ahead", 3)
    assert "clock.max_ahead" in dead.detail
    assert data(reorder.on_end(400 * MS)) == [(200, 3)]  # The dead letter took no number.


def test_late_event_follows_policy() -> None:
    """With `pass` the event is emitted with its number; otherwise it is only reported."""
    for late, number in (("pass", 11), ("side", 12), ("drop", 12)):
        reorder = operator(late=late, wait=0)
        events = [event(100, 200, 10), event(120, 201, 11), event(90, 202, 12)]
        step: Any = reorder.on_batch(events, 202 * MS)
        after = reorder.on_end(300 * MS)
        if late == "pass":
            assert (202, "overtaken", "a", 12, 90) in rendered(step)
            assert data(step) + data(after) == [(100, 10), (120, 11)]
            assert data(reorder.on_end(300 * MS)) == []
        else:
            (report,) = step.reports
            assert (report.event.seq, report.by_ns, report.reason) == (number, 30 * MS, "overtaken")
            assert not any(one.late for one in step.released)


def test_same_number_is_a_duplicate() -> None:
    """Events at one time with different numbers are distinct."""
    reorder = operator()
    step = reorder.on_batch([event(100, 200, 1), event(100, 201, 1)], 201 * MS)
    assert [type(report) for report in step.reports] == [Duplicate]
    step = reorder.on_batch([event(100, 202, 2)], 202 * MS)
    assert step.reports == []
    assert [number for _, number in data(reorder.on_end(300 * MS))] == [1, 2]


def test_control_events_wait_like_data() -> None:
    reorder = operator()
    batch = [
        event(110, 200, 0, kind=HEARTBEAT),
        event(112, 201, 1, kind=BYE),
        event(105, 202, 2),  # It arrives after both, and its time is before theirs.
        event(50, 290, 3, kind=HEARTBEAT),  # A late heartbeat is not emitted.
        event(51, 290, 4, kind=DEAD),  # A dead letter leaves no gap, so that nothing is emitted.
    ]
    step = reorder.on_batch(batch, 290 * MS)
    step.released += reorder.on_time(300 * MS).released
    assert rendered(step) == [
        (200, BLOCKED, "a", 0, 0),
        (204, "event", "a", 0, 105),
        (209, HEARTBEAT, "a", 1, 110),
        (211, BYE, "a", 2, 112),
        (211, UNBLOCKED, "a", 3, 0),
    ]
    assert {one.epoch for one in step.released} == {0}
    assert step.reports == []


def test_full_source_emits_its_smallest() -> None:
    reorder = operator(max_held=2)
    step = reorder.on_batch([event(ts, 200, n) for n, ts in enumerate((3, 1, 2))], 200 * MS)
    assert data(step) == [(1, 0)]
    assert reorder.figures()["overflows"] == 1


def test_total_bound_hits_fullest_source() -> None:
    reorder = operator(max_held_total=4)
    flood = [event(1_000 + n, 200, n, "flood") for n in range(4)]
    step = reorder.on_batch([*flood, event(5, 200, 9, "calm")], 200 * MS)
    assert rendered(step) == [(200, "event", "flood", 0, 1_000), (200, BLOCKED, "flood", 1, 0)]
    figures = reorder.figures()
    assert (figures["held"], figures["overflows"]) == (4, 1)


def test_byte_bound_hits_largest_payload() -> None:
    reorder = operator(max_held_bytes=100)
    events = [event(1_000 + n, 200, n, "many") for n in range(4)]
    events.append(event(5, 200, 9, "heavy"))
    for each in events:
        each.value = b"x" * (90 if each.source == "heavy" else 4)
    assert [e.source for e in reorder.on_batch(events, 200 * MS).released if e.kind == ""] == [
        "heavy"
    ]


def test_numbers_rise_after_forgetting() -> None:
    reorder = operator(wait=0, max_sources=1)
    before = reorder.on_batch([event(100 + n, 200 + n, n) for n in range(3)], 203 * MS)
    reorder.on_batch([event(100, 300, 3, "b")], 301 * MS)
    again = reorder.on_batch([event(90, 400, 4)], 401 * MS)
    assert data(before) == [(100, 0), (101, 1), (102, 2)]
    assert data(again) == [(90, 4)]
    assert reorder.figures()["forgotten"] == 2


def test_explain_shows_the_wait() -> None:
    reorder = operator()
    reorder.on_batch([event(100, 200, 7)], 200 * MS)
    reorder.on_time(203 * MS)
    (waiting,) = reorder.explain()["waiting"]
    assert (waiting["source"], waiting["held"], waiting["reason"]) == ("a", 1, "time")
    assert (waiting["since"], waiting["deadline"]) == (200 * MS, 250 * MS)
    assert waiting["strategy"]["until"] == 210 * MS
    assert reorder.next_deadline_ns() == 210 * MS
    numbered = Reorder("default", ReorderConfig())
    numbered.on_batch([event(100, 200, 7)], 200 * MS)
    (lane,) = numbered.explain()["waiting"]
    assert lane.keys() <= waiting.keys()
    assert reorder.figures().keys() <= FIGURES.keys()


def test_events_unknown_to_state_are_freed() -> None:
    reorder = operator()
    reorder.on_batch([event(100, 200, 7)], 200 * MS)
    stray, held = event(1, 2, 3, "stray"), event(100, 200, 7)
    again = operator()
    again.restore(reorder.snapshot(), [stray, held])
    assert list(again.iter_held()) == [held]


# -- the file --------------------------------------------------------------------------------------


def text(line: str) -> str:
    return f"streams: {{pitch: {{reorder: {{{line}}}}}}}"


def test_settings_reach_the_policy() -> None:
    topology = parse(text("rule: time, miss_target: 0.05%, max_wait: 3ms"))
    policy = ReorderByTime("pitch", topology.streams["pitch"].reorder)._policy()
    assert isinstance(policy, OwnTail)
    assert (policy._allowance.delta_ppm, policy._max_wait_ns) == (500, 3 * MS)


NO_EFFECT = ["start: zero", "infer_restart: false", "seq_bits: 16", "max_jump: 5", "gap_memory: 1h"]


@pytest.mark.parametrize("lines", [*([line] for line in NO_EFFECT), NO_EFFECT[:3]])
def test_settings_of_numbers_are_refused(lines: list[str]) -> None:
    """All settings for numbers are refused at once."""
    refused = refusal(text(", ".join(["rule: time", *lines])))
    problems = {problem.path: str(problem) for problem in refused}
    paths = [f"streams.pitch.reorder.{line.partition(':')[0]}" for line in lines]
    assert problems.keys() == {*paths}
    assert all("uses no sequence numbers; leave it out" in said for said in problems.values())
