"""Examples: detectors that raise, do not end, grow, or are no functions; each is counted and
named."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from topology.speculate import cursor as cursor_module
from topology.speculate.detector import MAX_TOLD, Detector, behaviour_of
from topology.speculate.item import LogEntry, Seen, before, behind
from topology.speculate.unit import Record, Unit


def run(detector: Any, payloads: list[Any], until_ns: int = 10**6) -> tuple[Unit, list[Record]]:
    """Events a nanosecond apart, then the rest of the time; the numbers are multiples of 64."""
    unit = Unit(behaviour_of(detector), b"")
    for time_ns, payload in enumerate(payloads):
        unit.put("", LogEntry(Seen("A", time_ns, payload, "s", 0, 64 * time_ns)))
    return unit, unit.advance(behind(until_ns), before(-9))


def test_one_that_raises_keeps_the_state_it_had() -> None:
    def step(state: int, event: Seen) -> Any:
        return state + 10 // event.payload, {"sum": state + 10 // event.payload}

    unit, records = run(Detector(step, 0), [5, 0, 2])
    assert [each.output.values for each in records] == [{"sum": 2}, {"sum": 7}]
    assert unit.counts.failed == 1
    assert "ZeroDivisionError" in unit.counts.why
    assert "s/0/64 at 1" in unit.counts.why


def test_what_was_told_is_taken_back_where_it_raises_now() -> None:
    def step(state: int, event: Seen) -> Any:
        return state + event.payload, {"share": 10 / (state + event.payload)}

    unit, records = run(Detector(step, 0), [1])
    assert len(records) == 1
    unit.put("", LogEntry(Seen("A", -1, -1, "t")))
    ops = [(each.op, each.output.values) for each in unit.advance(behind(1), before(-9))]
    assert ops[0] == ("retract", {"share": 10.0})


def test_one_that_tells_without_end() -> None:
    class Chatter:
        def on_event(self, event: Seen) -> Iterator[dict[str, int]]:
            return ({"n": n} for n in count())

    unit, records = run(Chatter, [1])
    assert len(records) == MAX_TOLD
    assert unit.counts.untold == 1


interpreted = pytest.mark.skipif(
    not str(cursor_module.__file__).endswith(".py"), reason="a bound is part of what is compiled"
)


@interpreted
@pytest.mark.parametrize("step_ns", [0, 1])
def test_a_timer_that_does_not_move_on(step_ns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cursor_module, "MAX_TICKS", 100)
    detector = Detector(
        lambda state, event: (event.time_ns, None),
        None,
        lambda state: None if state is None else state + step_ns,
        lambda state, time_ns: (time_ns * bool(step_ns), None),
    )
    unit, _ = run(detector, [1])
    assert unit.counts.stopped == 1
    assert "timers between two events" in unit.counts.why
    assert unit.counts.first <= 102


def test_a_timer_that_raises_stops_its_key() -> None:
    class Bad:
        def on_event(self, event: Seen) -> None: ...

        def deadline(self) -> int:
            return 5

        def on_time(self, time_ns: int) -> None:
            raise ValueError("no")

    unit, _ = run(Bad, [1])
    assert (unit.counts.stopped, unit.counts.failed) == (1, 1)


@interpreted
def test_a_state_without_bounds_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cursor_module, "MAX_SIZE", 50)
    unit, records = run(Detector(lambda s, e: ((*s, e.payload), {"n": len(s)}), ()), [1] * 90)
    assert unit.counts.stopped == 1
    assert "more than 50 values" in unit.counts.why
    assert len(records) == 50


def test_a_state_that_is_no_value_is_given_up() -> None:
    unit, _ = run(Detector(lambda state, event: (lambda: 1, None)), [1])
    assert unit.counts.stopped == 1
    assert "holds a function" in unit.counts.why


def test_one_that_does_not_give_the_same_of_the_same() -> None:
    calls = count()
    unit, _ = run(Detector(lambda state, event: (next(calls), None), 0), [1])
    assert unit.counts.unlike == 1
    assert "one thing and then another" in unit.counts.why


def test_one_that_changes_what_it_was_given() -> None:
    def step(state: list[int], event: Seen) -> Any:
        state.append(event.payload)
        return list(state[-1:]), None

    unit, _ = run(Detector(step, []), [1])
    assert unit.counts.unlike == 1
    assert "changes what it was given" in unit.counts.why


def test_what_json_does_not_have_is_a_failure() -> None:
    unit, records = run(Detector(lambda s, e: (s, {"x": object()})), [1])
    assert (records, unit.counts.failed) == ([], 1)
    assert "tells a object" in unit.counts.why


class _NoTime:
    def on_event(self, event: Seen) -> None: ...

    def deadline(self) -> int:
        return 1


class _Shared:
    def __init__(self) -> None:
        self.lock = print

    def on_event(self, event: Seen) -> None: ...


@pytest.mark.parametrize(
    ("detector", "wrong"),
    [
        (3, "neither a Detector nor a class with on_event"),
        (Detector(None), "cannot be called"),  # type: ignore[arg-type]
        (Detector(lambda s, e: (s, None), deadline=lambda s: 1), "a deadline and no tick"),
        (Detector(lambda s, e: (s, None), types="AB"), "types are one text"),
        (Detector(lambda s, e: (s, None), open), "first state cannot be kept"),
        (_NoTime, "no `on_time`"),
        (_Shared, "first state cannot be kept"),
    ],
)
def test_what_is_no_detector_is_refused_with_what_to_write(detector: Any, wrong: str) -> None:
    with pytest.raises(TypeError, match=wrong):
        behaviour_of(detector)
