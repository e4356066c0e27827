"""Examples: detectors that raise, do not end, grow, or are no functions; each is counted and
named."""

from __future__ import annotations

import json
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import Enum, IntEnum
from itertools import count
from typing import Any

import pytest

from topology.detector import cursor as cursor_module
from topology.detector.detector import (
    MAX_RESULTS,
    MAX_RESULTS_BYTES,
    MAX_SIZE,
    Detector,
    Found,
    behaviour_of,
)
from topology.detector.item import LogEntry, Seen, before, behind
from topology.detector.unit import Record, Unit
from topology.detector.values import GLANCE, glance


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
    assert len(records) == MAX_RESULTS
    assert unit.counts.too_many_results == 1


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
    assert unit.counts.processed <= 102


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
    assert "contains a function" in unit.counts.why


class Mode(Enum):
    IDLE = 0
    BUSY = 1


class Speed(IntEnum):
    SLOW = 0
    FAST = 1


class Table(dict[str, int]): ...


NO_VALUES: list[Any] = [
    deque([1]),
    datetime(2020, 1, 1, tzinfo=UTC),
    timedelta(1),
    Decimal(1),
    Counter(a=1),
    OrderedDict(a=1),
    defaultdict(int, a=1),
    Table(a=1),
    count(),
    print,
]


def holding(value: Any, first: int) -> Any:
    """A class whose state comes to hold it at an event with that payload, or a greater one."""

    class Holder:
        classes = (type(value),)

        def __init__(self) -> None:
            self.n = 0
            self.held: Any = None

        def on_event(self, event: Seen) -> dict[str, int]:
            self.n += 1
            if event.payload >= first:
                self.held = value
            return {"n": self.n}

    return Holder


def standing(records: list[Record], stand: dict[str, Any]) -> dict[str, Any]:
    for each in records:
        if each.op == "retract":
            del stand[each.output.id]
        else:
            stand[each.output.id] = each.output.values
    return stand


@pytest.mark.parametrize("value", NO_VALUES, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("kind", ["class", "pure"])
def test_a_first_state_that_is_no_value_stops_its_key_at_once(kind: str, value: Any) -> None:
    """Whatever the number of the event, and whether its class is declared or not; as much stands
    where it is read in order as where it is read ahead."""
    pure = Detector(lambda state, event: ((value,), {"n": 1}), (), classes=(type(value),))
    for is_ahead in (False, True):
        unit = Unit(behaviour_of(holding(value, 0) if kind == "class" else pure), b"")
        stand: dict[str, Any] = {}
        for seq in (1, 3, 2):
            unit.put("", LogEntry(Seen("A", seq, seq, "s", 0, seq)))
            if is_ahead:
                standing(unit.advance(behind(seq), before(-9)), stand)
        standing(unit.advance(behind(9), behind(9)), stand)
        assert len(stand) == 1
        assert unit.counts.stopped == 1
        assert "whose content is not in its attributes" in unit.counts.why


@pytest.mark.parametrize("value", NO_VALUES, ids=lambda value: type(value).__name__)
def test_one_that_comes_to_hold_what_is_no_value_stops_its_key(value: Any) -> None:
    """Between the events that are looked at, at the same event in order and read ahead."""
    for final in (before(0), behind(5)):
        unit = Unit(behaviour_of(holding({"at": [value]}, 3)), b"", spacing=64)
        stand: dict[str, Any] = {}
        for seq in (1, 2, 4, 5, 3) if final == before(0) else range(1, 6):
            unit.put("", LogEntry(Seen("A", seq, seq, "s", 0, seq)))
            standing(
                unit.advance(behind(5 if final == before(0) else seq), min(final, behind(seq))),
                stand,
            )
        assert [each["n"] for each in stand.values()] == [1, 2, 3]
        assert unit.counts.stopped == 1
        assert "whose content is not in its attributes" in unit.counts.why
        unit.table.snapshot()


def test_what_a_glance_does_not_show_is_seen_at_the_next_look() -> None:
    """In order; read ahead it is seen where the state is copied."""
    hidden = [*range(GLANCE), deque([1])]
    for is_ahead, seen in ((False, 64), (True, 3)):
        unit = Unit(behaviour_of(holding(hidden, 3)), b"")
        stand: dict[str, Any] = {}
        for seq in range(1, 70):
            unit.put("", LogEntry(Seen("A", seq, seq, "s", 0, seq)))
            standing(unit.advance(behind(seq), before(0) if is_ahead else behind(seq)), stand)
        assert [each["n"] for each in stand.values()] == [*range(1, seen + 1)]


def test_one_that_is_stopped_where_the_base_moves_takes_back_what_lies_behind() -> None:
    unit = Unit(behaviour_of(holding([*range(GLANCE), deque([1])], 3)), b"", spacing=8)
    stand: dict[str, Any] = {}
    for seq in range(1, 7):
        unit.put("", LogEntry(Seen("A", seq, seq, "s", 0, seq)))
    standing(unit.advance(behind(6), before(0)), stand)
    assert len(stand) == 6
    standing(unit.advance(behind(6), behind(4)), stand)
    assert [each["n"] for each in stand.values()] == [1, 2, 3, 4]
    unit.put("", LogEntry(Seen("A", 7, 7, "s", 0, 7)))
    assert unit.advance(behind(8), behind(8)) == []


@pytest.mark.parametrize("members", [Mode, Speed])
def test_a_state_machine_by_an_enum(members: Any) -> None:
    """Emitted ahead, with a late event and a restart in between, as in order."""

    class Machine:
        classes = (members,)

        def __init__(self) -> None:
            self.mode = members(0)

        def on_event(self, event: Seen) -> dict[str, str]:
            before_it = self.mode
            self.mode = members(event.payload)
            return {"was": before_it.name, "is": self.mode.name}

    events = [Seen("A", seq, seq % 3 % 2, "s", 0, seq) for seq in range(1, 130)]
    whole = Unit(behaviour_of(Machine), b"")
    for seen in events:
        whole.put("", LogEntry(seen))
    wanted = standing(whole.advance(behind(200), behind(200)), {})
    unit = Unit(behaviour_of(Machine), b"")
    stand: dict[str, Any] = {}
    for seen in [*events[:9], *events[11:], *events[9:11]]:
        unit.put("", LogEntry(seen))
        standing(unit.advance(behind(seen.time_ns), behind(5)), stand)
    assert unit.counts.rollbacks > 0
    restored = Unit(behaviour_of(Machine), b"")
    assert not any(restored.table.read(unit.table.snapshot(), None))
    for seen in events[5:]:
        restored.put("", LogEntry(seen))
    restored.reached, restored.confirmed = unit.reached, unit.confirmed
    restored.resume()
    standing(restored.advance(behind(200), behind(200)), stand)
    assert stand == wanted
    assert (restored.counts.stopped, unit.counts.stopped) == (0, 0)


def test_a_state_that_cannot_be_read_back_stops_its_key() -> None:
    """Its class has lost a member between two runs."""

    class Fewer(Enum):
        IDLE = 0

    Fewer.__name__ = "Mode"
    unit, _ = run(Detector(lambda s, e: (Mode.BUSY, {"n": 1}), Mode.IDLE), [1])
    unit.advance(behind(10**6), behind(10**6))
    restored = Unit(behaviour_of(Detector(lambda s, e: (s, {"n": 1}), Fewer.IDLE)), b"")
    assert not any(restored.table.read(unit.table.snapshot(), None))
    restored.put("", LogEntry(Seen("A", 10**7, 1)))
    assert restored.advance(behind(10**8), behind(10**8)) == []
    assert restored.counts.stopped == 1
    assert "cannot be read back: KeyError: 'BUSY'" in restored.counts.why


def test_one_that_does_not_give_the_same_of_the_same() -> None:
    calls = count()
    unit, _ = run(Detector(lambda state, event: (next(calls), None), 0), [1])
    assert unit.counts.nondeterministic == 1
    assert "different results for the same event" in unit.counts.why


def test_one_that_changes_what_it_was_given() -> None:
    def step(state: list[int], event: Seen) -> Any:
        state.append(event.payload)
        return list(state[-1:]), None

    unit, _ = run(Detector(step, []), [1])
    assert unit.counts.nondeterministic == 1
    assert "changes its arguments" in unit.counts.why


class Peer:
    peer: Any = None


def test_a_ring_of_objects_stops_its_key() -> None:
    """At the same event in order and read ahead, though it is not looked at whole there."""

    class Ring:
        classes = (Peer,)

        def __init__(self) -> None:
            self.n = 0
            self.peer: Any = None

        def on_event(self, event: Seen) -> dict[str, int]:
            self.n += 1
            if self.n == 3:
                self.peer = Peer()
                self.peer.peer = self.peer
            return {"n": self.n}

    for is_ahead in (False, True):
        unit = Unit(behaviour_of(Ring), b"")
        told = 0
        for seq in (1, 3, 5, 7):
            unit.put("", LogEntry(Seen("A", seq, seq, "s", 0, seq)))
            told += len(unit.advance(behind(seq), before(0) if is_ahead else behind(seq)))
        assert told == 3
        assert unit.counts.stopped == 1
        assert "contains itself" in unit.counts.why


LONG = 400_000

GROWING: list[Any] = [
    Detector(lambda state, event: (state + "x" * LONG, {"n": len(state)}), ""),
    Detector(lambda state, event: (state + b"x" * LONG, {"n": len(state)}), b""),
    Detector(lambda state, event: (state << 8 * LONG, {"n": state.bit_length()}), 1),
    Detector(lambda state, event: ((state[0] + "x" * LONG,), {"n": len(state[0])}), ("",)),
]


@pytest.mark.parametrize("detector", GROWING, ids=["text", "bytes", "int", "tuple"])
def test_one_value_that_grows_is_given_up(detector: Detector) -> None:
    """At the same event in order and read ahead, between those that are looked at; and of what is
    kept to go back to there is a bound."""
    for is_ahead in (False, True):
        unit = Unit(behaviour_of(detector), b"")
        unit.max_kept = 100_000
        stand: dict[str, Any] = {}
        most = 0
        for seq in range(1, 30):
            unit.put("", LogEntry(Seen("A", seq, seq, "s", 0, seq)))
            final = before(0) if is_ahead else behind(seq)
            standing(unit.advance(behind(seq), final), stand)
            kept = [entry.after for log in unit.logs.values() for entry in log.entries]
            most = max(most, sum(max(glance(each, {}), 0) for each in kept))
        assert len(stand) == MAX_SIZE * 64 // LONG + 1
        assert unit.counts.stopped == 1
        assert f"more than {MAX_SIZE:,} values" in unit.counts.why
        assert most <= 3 * unit.max_kept
        assert is_ahead == (most > 0)


def test_results_that_are_long_are_left_out() -> None:
    """All that would go beyond, and what is told behind them."""
    texts = ["x" * (MAX_RESULTS_BYTES // 2), "y", "z" * (MAX_RESULTS_BYTES // 2), "w"]
    detector = Detector(lambda s, e: (s, [{"t": each} for each in texts]))
    unit, records = run(detector, [1])
    assert [each.output.values["t"][0] for each in records] == ["x", "y"]
    assert unit.counts.too_many_results == 1
    unit, records = run(Detector(lambda s, e: (s, {"t": "x" * MAX_RESULTS_BYTES})), [1])
    assert (records, unit.counts.too_many_results) == ([], 1)
    assert "1 MiB" in unit.counts.why


@pytest.mark.parametrize(
    ("told", "wrong"),
    [
        ({"a": ["\ud800"]}, "surrogate"),
        ({"\ud800": 1}, "surrogate"),
        ({"a": 1 << 9_000}, "bits"),
        (Found({}, events={"\ud800": Seen("A", 1, 1)}), "names an event"),
    ],
)
def test_a_result_that_nobody_can_write_is_a_failure(told: Any, wrong: str) -> None:
    unit, records = run(Detector(lambda s, e: (s, told)), [1])
    assert (records, unit.counts.failed) == ([], 1)
    assert wrong in unit.counts.why


def test_a_text_that_is_none_stops_its_key_and_is_no_hindrance_to_a_checkpoint() -> None:
    unit = Unit(behaviour_of(Detector(lambda s, e: ("\ud800"[: e.seq // 3], None), "")), b"")
    for seq in (1, 3):
        unit.put("", LogEntry(Seen("A", seq, 1, "s", 0, seq)))
        unit.advance(behind(seq), behind(seq))
    assert unit.counts.stopped == 1
    assert "surrogate" in unit.counts.why
    json.dumps(unit.table.snapshot(), ensure_ascii=False).encode()


def test_what_json_does_not_have_is_a_failure() -> None:
    unit, records = run(Detector(lambda s, e: (s, {"x": object()})), [1])
    assert (records, unit.counts.failed) == ([], 1)
    assert "returned a object" in unit.counts.why


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
        (Detector(lambda s, e: (s, None), deadline=lambda s: 1), "a deadline but no tick"),
        (Detector(lambda s, e: (s, None), types="AB"), "types are a single text"),
        (Detector(lambda s, e: (s, None), open), "initial state cannot be stored"),
        (_NoTime, "no `on_time`"),
        (_Shared, "initial state cannot be stored"),
        (Detector(lambda s, e: (s, None), Counter()), "contains a Counter, whose content"),
    ],
)
def test_what_is_no_detector_is_refused_with_what_to_write(detector: Any, wrong: str) -> None:
    with pytest.raises(TypeError, match=wrong):
        behaviour_of(detector)
