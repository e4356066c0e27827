"""Examples: which events are replayed, which results that gives, and what is kept."""

from __future__ import annotations

from typing import Any

import pytest

from topology.queries.detector import unit as unit_module
from topology.queries.detector.detector import Detector, Found, behaviour_of
from topology.queries.detector.item import ABSENT, LogEntry, Seen, behind, key_before_all_at
from topology.queries.detector.key_log import CONFLICT, COPY, STORED
from topology.queries.detector.unit import EXPIRED, REFUSED, UNIT, Unit

interpreted = pytest.mark.skipif(
    not str(unit_module.__file__).endswith(".py"), reason="a bound is part of what is compiled"
)


def _sum(state: int, event: Seen) -> tuple[int, Any]:
    return state + event.payload, {"sum": state + event.payload}


def unit_of(detector: Any, **settings: Any) -> Unit:
    return Unit(behaviour_of(detector), b"", **settings)


def put(unit: Unit, time_ns: int, payload: Any = 1, key: str = "", source: str = "s") -> str:
    return unit.put(key, LogEntry(Seen("A", time_ns, payload, source, 0, time_ns + 1)))


def told(unit: Unit, until_ns: int, final_ns: int = 0) -> list[tuple[str, int, bool, Any]]:
    """Return operation, revision, finality and values of the results up to that instant."""
    records = unit.advance(behind(until_ns), key_before_all_at(final_ns))
    return [(each.op, each.revision, each.final, each.output.values) for each in records]


def fill_unit(detector: Detector) -> Unit:
    """Return a unit that has read an event every ten nanoseconds."""
    unit = unit_of(detector)
    for time_ns in range(10, 1_000, 10):
        put(unit, time_ns)
    unit.advance(behind(1_000), key_before_all_at(0))
    return unit


def test_late_event_corrects_later_results() -> None:
    unit = unit_of(Detector(_sum, 0))
    for time_ns in (10, 30):
        put(unit, time_ns)
    assert told(unit, 30, 5) == [("emit", 0, False, {"sum": 1}), ("emit", 0, False, {"sum": 2})]
    assert put(unit, 20) == STORED
    assert told(unit, 30, 5) == [
        ("emit", 0, False, {"sum": 2}),
        ("update", 1, False, {"sum": 3}),
    ]
    assert (unit.counts.processed, unit.counts.replayed) == (3, 1), "the late one is new"
    assert told(unit, 30, 31) == [], "it stands, and was told"
    assert not unit.held
    assert put(unit, 25) == EXPIRED


def test_replay_ends_at_equal_state() -> None:
    unit = fill_unit(Detector(lambda state, event: ((state + event.payload) % 2, None), 0))
    put(unit, 15, 2)
    unit.advance(behind(1_000), key_before_all_at(0))
    assert unit.counts.replayed == 1
    assert unit.counts.converged == 1


def test_many_late_events_are_one_replay() -> None:
    unit = fill_unit(Detector(_sum, 0))
    for time_ns in range(15, 500, 10):
        put(unit, time_ns)
    unit.advance(behind(1_000), key_before_all_at(0))
    assert unit.counts.rollbacks == 1
    assert (unit.counts.processed, unit.counts.replayed) == (99 + 49, 99 - 1)


def test_late_event_replays_only_its_key() -> None:
    unit = unit_of(Detector(_sum, 0))
    for time_ns in range(10, 100):
        put(unit, time_ns, key="ab"[time_ns % 2])
    unit.advance(behind(100), key_before_all_at(0))
    put(unit, 90, key="b", source="t")
    unit.advance(behind(100), key_before_all_at(0))
    assert unit.counts.replayed == 5


def test_repeat_is_duplicate_or_conflict() -> None:
    unit = unit_of(Detector(_sum, 0))
    assert [put(unit, 10), put(unit, 10), put(unit, 10, 2)] == [STORED, COPY, CONFLICT]


def test_key_back_in_first_state_is_dropped() -> None:
    unit = unit_of(Detector(lambda state, event: ((state + 1) % 2, None), 0), max_keys=1)
    assert put(unit, 10, key="a") == STORED
    assert put(unit, 10, key="b") == REFUSED
    unit.advance(behind(10), key_before_all_at(11))
    put(unit, 20, key="a")
    unit.advance(behind(20), key_before_all_at(21))
    assert not unit.logs, "its state is the first one again"
    assert put(unit, 30, key="b") == STORED


@interpreted
def test_open_ids_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unit_module, "MAX_IDS", 5)
    unit = unit_of(Detector(lambda s, e: (s, Found({"v": 1}, id=e.time_ns))))
    for time_ns in range(40):
        put(unit, time_ns)
        unit.advance(behind(time_ns), key_before_all_at(time_ns + 1))
    (log,) = unit.logs.values()
    assert len(log.shown) + len(log.floor) <= 10
    assert unit.forgotten >= 30


def test_overlap_makes_result_unsure() -> None:
    unit = unit_of(Detector(_sum, 0))
    for time_ns, error_ns in ((10, 0), (20, 5), (24, 0), (40, 5)):
        unit.put("", LogEntry(Seen("A", time_ns, 1, "s", 0, time_ns, error_ns)))
    unsure = [each.output.unsure for each in unit.advance(behind(40), key_before_all_at(0))]
    assert unsure == [False, False, True, False]


def test_spacing_of_a_key_survives_restart() -> None:
    unit = unit_of(Detector(_sum, 0))
    unit.spacing = 2  # the spacing when the key is new
    for time_ns in range(10, 100, 10):
        put(unit, time_ns)
        unit.advance(behind(time_ns), key_before_all_at(-1))
    unit.spacing = unit.logs[""].spacing = 1
    put(unit, 100)
    unit.advance(behind(100), key_before_all_at(-1))
    again = unit_of(Detector(_sum, 0))
    UNIT.put(again, UNIT.dump(unit))
    assert not any(again.table.read(unit.table.snapshot()))
    for time_ns in range(10, 110, 10):
        put(again, time_ns)
    again.resume()
    for each in (unit, again):
        put(each, 15, source="t")
        each.advance(behind(100), key_before_all_at(-1))
    assert again.counts.replayed == unit.counts.replayed == 10


class Hoard:
    """A detector with a state of a thousand values, which emits at every seventh event."""

    def __init__(self) -> None:
        self.seen = [0] * 1_000

    def on_event(self, event: Seen) -> Any:
        self.seen[event.seq % 1_000] += event.payload
        return {"sum": sum(self.seen)} if event.seq % 7 == 0 else None


def _hoarded(max_kept: int) -> tuple[list[Any], int, list[int]]:
    unit = Unit(behaviour_of(Hoard), b"")
    unit.max_kept = max_kept
    said: list[Any] = []
    kept: list[int] = []
    for seq in range(300):
        unit.put("", LogEntry(Seen("A", 10 * seq, seq, "s", 0, seq)))
        if seq % 50 == 49:
            unit.put("", LogEntry(Seen("A", 10 * seq - 255, 1, "t", 0, seq)))
        said += told(unit, 10 * seq)
        kept.append(sum(each.after is not ABSENT for each in unit.logs[""].entries))
    most = unit.spacing
    unit.advance(behind(3_000), key_before_all_at(3_000))
    unit.advance(behind(3_000), key_before_all_at(3_000))
    assert unit.spacing < most or most == 1, "when little is held, more is kept again"
    return said, most, kept


def test_large_states_are_thinned() -> None:
    plenty, every, _ = _hoarded(10**9)
    scarce, spacing, kept = _hoarded(20_000)
    assert every == 1
    assert spacing >= 8
    assert scarce == plenty
    assert max(kept) * 1_000 <= 2 * 20_000, "and no moment in which there are more"
