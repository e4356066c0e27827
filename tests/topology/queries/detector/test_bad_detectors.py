"""Examples: detectors that raise, never end, grow, or are not functions. Each fault is counted and
named.
"""

from __future__ import annotations

import json
from collections import Counter, deque
from collections.abc import Iterator
from enum import Enum
from itertools import count
from typing import Any

import pytest

from tests.topology.queries.detector.oracle import Mode
from tests.topology.queries.detector.test_values import NO_VALUES
from topology.queries.detector import cursor as cursor_module
from topology.queries.detector.detector import (
    MAX_RESULTS,
    MAX_RESULTS_BYTES,
    MAX_SIZE,
    Detector,
    Found,
    behaviour_of,
    results_of,
)
from topology.queries.detector.item import LogEntry, Seen, behind, key_before_all_at
from topology.queries.detector.unit import Record, Unit
from topology.queries.detector.values import GLANCE, count_text_blocks


def run(detector: Any, payloads: list[Any]) -> tuple[Unit, list[Record]]:
    """Return a unit with events a nanosecond apart, and its output up to a late instant.

    Sequence numbers are multiples of 64, at which states are checked.
    """
    unit = Unit(behaviour_of(detector), b"")
    for time_ns, payload in enumerate(payloads):
        unit.put("", LogEntry(Seen("A", time_ns, payload, "s", 0, 64 * time_ns)))
    return unit, unit.advance(behind(10**6), key_before_all_at(-9))


def note(records: list[Record], stand: dict[str, Any]) -> None:
    for each in records:
        if each.op == "retract":
            del stand[each.output.id]
        else:
            stand[each.output.id] = each.output.values


def read(unit: Unit, seq: int, stand: dict[str, Any], *, is_speculative: bool) -> None:
    """Add an event whose instant and payload are its number. Unless speculative, the event becomes
    final.
    """
    unit.put("", LogEntry(Seen("A", seq, seq, "s", 0, seq)))
    note(unit.advance(behind(seq), key_before_all_at(0) if is_speculative else behind(seq)), stand)


ahead_or_not = pytest.mark.parametrize("is_speculative", [False, True], ids=["in order", "ahead"])


def test_failed_step_keeps_the_state() -> None:
    def step(state: int, event: Seen) -> Any:
        return state + 10 // event.payload, {"sum": state + 10 // event.payload}

    unit, records = run(Detector(step, 0), [5, 0, 2])
    assert [each.output.values for each in records] == [{"sum": 2}, {"sum": 7}]
    assert unit.counts.failed == 1
    assert "ZeroDivisionError" in unit.counts.why
    assert "s/0/64 at 1" in unit.counts.why


def test_failed_replay_retracts_the_result() -> None:
    def step(state: int, event: Seen) -> Any:
        return state + event.payload, {"share": 10 / (state + event.payload)}

    unit, records = run(Detector(step, 0), [1])
    assert len(records) == 1
    unit.put("", LogEntry(Seen("A", -1, -1, "t")))
    ops = [(each.op, each.output.values) for each in unit.advance(behind(1), key_before_all_at(-9))]
    assert ops[0] == ("retract", {"share": 10.0})


def test_endless_results_are_cut() -> None:
    class Chatter:
        def on_event(self, event: Seen) -> Iterator[dict[str, int]]:
            return ({"n": n} for n in count())

    unit, records = run(Chatter, [1])
    assert len(records) == MAX_RESULTS
    assert len(results_of(count())) == MAX_RESULTS + 1, "one more shows that there are too many"
    assert unit.counts.too_many_results == 1


interpreted = pytest.mark.skipif(
    not str(cursor_module.__file__).endswith(".py"), reason="a bound is part of what is compiled"
)


@interpreted
@pytest.mark.parametrize("step_ns", [0, 1])
def test_stuck_timer_stops_key(step_ns: int, monkeypatch: pytest.MonkeyPatch) -> None:
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


@interpreted
def test_growing_state_stops_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cursor_module, "MAX_SIZE", 50)
    unit, records = run(Detector(lambda s, e: ((*s, e.payload), {"n": len(s)}), ()), [1] * 90)
    assert unit.counts.stopped == 1
    assert "more than 50 values" in unit.counts.why
    assert len(records) == 50


class BadTimer:
    def on_event(self, event: Seen) -> None: ...

    def deadline(self) -> int:
        return 5

    def on_time(self, time_ns: int) -> None:
        raise ValueError("no")


def _grows(state: list[int], event: Seen) -> Any:
    state.append(event.payload)
    return list(state[-1:]), None


def _other(state: int, event: Seen) -> Any:
    return next(CALLS), None


def _tells(said: Any) -> Detector:
    return Detector(lambda state, event: (state, said))


CALLS = count()
FAULTS: list[tuple[Any, set[str], str]] = [
    (BadTimer, {"stopped", "failed"}, "its timer raised"),
    (Detector(lambda state, event: (_tells, None)), {"stopped"}, "contains a function"),
    (Detector(_other, 0), {"nondeterministic"}, "different results for the same event"),
    (Detector(_grows, []), {"nondeterministic"}, "changes its arguments"),
    (_tells({"t": "x" * MAX_RESULTS_BYTES}), {"too_many_results"}, "1 MiB"),
    (_tells({"a": ["\ud800"]}), {"failed"}, "surrogate"),
    (_tells({"\ud800": 1}), {"failed"}, "surrogate"),
    (_tells({"a": 1 << 9_000}), {"failed"}, "bits"),
    (_tells({"x": object()}), {"failed"}, "returned a object"),
    (_tells(Found({}, events={"\ud800": Seen("A", 1, 1)})), {"failed"}, "names an event"),
]


@pytest.mark.parametrize(("detector", "counts", "why"), FAULTS)
def test_fault_is_counted_and_named(detector: Any, counts: set[str], why: str) -> None:
    unit, records = run(detector, [1])
    assert records == []
    figures = unit.counts.figures()
    kinds = ("failed", "nondeterministic", "stopped", "too_many_results")
    assert {kind: figures[kind] for kind in kinds if figures[kind]} == dict.fromkeys(counts, 1)
    assert why in unit.counts.why


class Peer:
    peer: Any = None


def make_holder(value: Any, first: int) -> Any:
    """Return a detector whose state contains the value from the first payload of at least `first`
    on.
    """

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


@pytest.mark.parametrize("value", NO_VALUES, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("kind", ["class", "pure", "undeclared"])
@ahead_or_not
def test_bad_first_state_stops_key(is_speculative: bool, kind: str, value: Any) -> None:
    """One result remains, whether events are read in order or speculatively."""
    classes = (type(value),) if kind == "pure" else ()
    pure = Detector(lambda state, event: ((value,), {"n": 1}), (), classes=classes)
    unit = Unit(behaviour_of(make_holder(value, 0) if kind == "class" else pure), b"")
    stand: dict[str, Any] = {}
    for seq in (1, 3, 2) if is_speculative else (1, 2, 3):
        read(unit, seq, stand, is_speculative=is_speculative)
    note(unit.advance(behind(9), behind(9)), stand)
    assert len(stand) == 1
    assert unit.counts.stopped == 1
    assert "whose content is not in its attributes" in unit.counts.why


def _ring() -> Peer:
    peer = Peer()
    peer.peer = peer
    return peer


@pytest.mark.slow
@pytest.mark.parametrize(
    ("value", "why"),
    [
        *(({"at": [each]}, "whose content is not in its attributes") for each in NO_VALUES),
        (_ring(), "contains itself"),
    ],
    ids=[*(type(each).__name__ for each in NO_VALUES), "ring"],
)
@ahead_or_not
def test_bad_later_state_stops_key(is_speculative: bool, value: Any, why: str) -> None:
    """In order and speculatively, the key stops at the same event, between the events whose state
    is checked.
    """
    unit = Unit(behaviour_of(make_holder(value, 3)), b"", spacing=64)
    stand: dict[str, Any] = {}
    for seq in (1, 2, 4, 5, 3) if is_speculative else range(1, 6):
        read(unit, seq, stand, is_speculative=is_speculative)
    assert [each["n"] for each in stand.values()] == [1, 2, 3]
    assert unit.counts.stopped == 1
    assert why in unit.counts.why
    unit.table.snapshot()


HIDDEN = [*range(GLANCE), deque([1])]


@pytest.mark.parametrize(("is_speculative", "seen"), [(False, 64), (True, 3)])
def test_hidden_bad_value_is_found_later(is_speculative: bool, seen: int) -> None:
    """In order, the next full check finds the value; speculatively, the next copy of the state
    does.
    """
    unit = Unit(behaviour_of(make_holder(HIDDEN, 3)), b"")
    stand: dict[str, Any] = {}
    for seq in range(1, 70):
        read(unit, seq, stand, is_speculative=is_speculative)
    assert [each["n"] for each in stand.values()] == [*range(1, seen + 1)]


def test_stop_at_base_retracts_later_results() -> None:
    unit = Unit(behaviour_of(make_holder(HIDDEN, 3)), b"", spacing=8)
    stand: dict[str, Any] = {}
    for seq in range(1, 7):
        unit.put("", LogEntry(Seen("A", seq, seq, "s", 0, seq)))
    note(unit.advance(behind(6), key_before_all_at(0)), stand)
    assert len(stand) == 6
    note(unit.advance(behind(6), behind(4)), stand)
    assert [each["n"] for each in stand.values()] == [1, 2, 3, 4]
    unit.put("", LogEntry(Seen("A", 7, 7, "s", 0, 7)))
    assert unit.advance(behind(8), behind(8)) == []


def test_unreadable_state_stops_key() -> None:
    """A state's enumeration has lost a member between two runs."""

    class Fewer(Enum):
        IDLE = 0

    Fewer.__name__ = "Mode"
    unit, _ = run(Detector(lambda s, e: (Mode.BUSY, {"n": 1}), Mode.IDLE), [1])
    unit.advance(behind(10**6), behind(10**6))
    restored = Unit(behaviour_of(Detector(lambda s, e: (s, {"n": 1}), Fewer.IDLE)), b"")
    assert not any(restored.table.read(unit.table.snapshot()))
    restored.put("", LogEntry(Seen("A", 10**7, 1)))
    assert restored.advance(behind(10**8), behind(10**8)) == []
    assert restored.counts.stopped == 1
    assert "cannot be read back: KeyError: 'BUSY'" in restored.counts.why


LONG = 400_000

GROWING: list[Any] = [
    Detector(lambda state, event: (state + "x" * LONG, {"n": len(state)}), ""),
    Detector(lambda state, event: (state + b"x" * LONG, {"n": len(state)}), b""),
    Detector(lambda state, event: (state << 8 * LONG, {"n": state.bit_length()}), 1),
    Detector(lambda state, event: ((state[0] + "x" * LONG,), {"n": len(state[0])}), ("",)),
]


@pytest.mark.parametrize("detector", GROWING, ids=["text", "bytes", "int", "tuple"])
@ahead_or_not
def test_growing_value_stops_key(is_speculative: bool, detector: Detector) -> None:
    """In order and speculatively, the key stops at the same event, between checks. Kept states have
    a bound.
    """
    unit = Unit(behaviour_of(detector), b"")
    unit.max_kept = 100_000
    stand: dict[str, Any] = {}
    most = 0
    for seq in range(1, 30):
        read(unit, seq, stand, is_speculative=is_speculative)
        kept = [entry.after for log in unit.logs.values() for entry in log.entries]
        most = max(most, sum(max(count_text_blocks(each, {}), 0) for each in kept))
    assert len(stand) == MAX_SIZE * 64 // LONG + 1
    assert unit.counts.stopped == 1
    assert f"more than {MAX_SIZE:,} values" in unit.counts.why
    assert most <= 3 * unit.max_kept
    assert is_speculative == (most > 0)


def test_long_results_are_left_out() -> None:
    """Results after the first one beyond the bound are left out as well."""
    texts = ["x" * (MAX_RESULTS_BYTES // 2), "y", "z" * (MAX_RESULTS_BYTES // 2), "w"]
    unit, records = run(_tells([{"t": each} for each in texts]), [1])
    assert [each.output.values["t"][0] for each in records] == ["x", "y"]
    assert unit.counts.too_many_results == 1


def test_lone_surrogate_stops_key() -> None:
    unit = Unit(behaviour_of(Detector(lambda s, e: ("\ud800"[: e.seq // 3], None), "")), b"")
    for seq in (1, 3):
        read(unit, seq, {}, is_speculative=False)
    assert unit.counts.stopped == 1
    assert "surrogate" in unit.counts.why
    json.dumps(unit.table.snapshot(), ensure_ascii=False).encode()


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
        (Detector(_other, 0, len, max, correct=max), "cannot be used with timers"),
        (_NoTime, "no `on_time`"),
        (_Shared, "initial state cannot be stored"),
        (Detector(lambda s, e: (s, None), Counter()), "contains a Counter, whose content"),
    ],
)
def test_wrong_detector_is_refused(detector: Any, wrong: str) -> None:
    with pytest.raises(TypeError, match=wrong):
        behaviour_of(detector)
