"""Law 10: for a late event, a detector's own `correct` gives the results of a replay. A `correct`
that gives others is found.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from inorder.engine import RawEvent
from inorder.testing import BadDetector, check_detector
from tests.topology.queries.detector.worlds import everything, run, some, world
from topology.queries.detector.detector import Detector, Emitted, Found, behaviour_of
from topology.queries.detector.item import LogEntry, Seen, behind, key_before_all_at
from topology.queries.detector.unit import Unit

SEEDS = 150


def _sum(state: int, event: Seen) -> tuple[int, Any]:
    """Emit the sum of all payloads at each C."""
    state += event.payload
    return state, {"sum": state} if event.type == "C" else None


def _add(state: int, event: Seen, told: list[Emitted]) -> Any:
    """Add a late event to later sums; a late C needs a replay, since the sum before it is not
    known.
    """
    if event.type == "C":
        return None
    now = [each.with_values({"sum": each.values["sum"] + event.payload}) for each in told]
    return state + event.payload, None, now


State = tuple[tuple[int, str], ...]


def _pairs(state: State, event: Seen) -> tuple[State, Any]:
    """Pair each C with the last two As before it, except those that a B at their time removed."""
    found = [{"a": a_ns} for a_ns, _ in state[-2:]] if event.type == "C" else []
    if event.type == "A":
        state = (*state, (event.time_ns, event.source))
    if event.type == "B":
        state = tuple(each for each in state if each[0] != event.time_ns)
    return state, found


def _pair(state: State, event: Seen, told: list[Emitted]) -> Any:
    """Correct for a late B that removes no A, and leave all other events to a replay."""
    if event.type != "B" or any(each.time_ns == event.time_ns for each in told):
        return None
    left: State = tuple(each for each in state if each[0] != event.time_ns)
    if len(left) < len(state):
        return None
    return state, (), told


def _odd(state: int, event: Seen) -> tuple[int, Any]:
    """Count events, and emit at each B whether the count is odd, under an id that recurs."""
    state += 1
    if event.type == "B":
        return state, [Found({"odd": state % 2}, id=event.payload)]
    return state, None


def _even(state: int, event: Seen, told: list[Emitted]) -> Any:
    if event.type == "B":
        return None
    return state + 1, None, [each.with_values({"odd": 1 - each.values["odd"]}) for each in told]


def _last_b(state: tuple[int, ...], event: Seen) -> tuple[tuple[int, ...], Any]:
    """Emit at each C that has no B before it."""
    if event.type == "B":
        return (*state, event.time_ns), None
    return state, {"clean": True} if event.type == "C" and not state else None


def _b(state: tuple[int, ...], event: Seen, told: list[Emitted]) -> Any:
    if event.type == "A":
        return state, None, told
    if event.type == "C":
        return None
    return tuple(sorted((*state, event.time_ns))), None, [None] * len(told)


CORRECTING = {
    "sum": Detector(_sum, 0, correct=_add),
    "pairs": Detector(_pairs, (), correct=_pair),
    "odd": Detector(_odd, 0, correct=_even),
    "last b": Detector(_last_b, (), correct=_b),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CORRECTING)
def test_correction_matches_a_replay(name: str) -> None:
    detector = CORRECTING[name]
    corrected = saved = 0
    for seed in range(SEEDS):
        of = world(seed, corrects=seed % 2 == 0)
        for goal in (everything, some):
            mended = run(detector, of, goal)
            plain = run(replace(detector, correct=None), of, goal)
            assert mended.emitted == plain.emitted, seed
            corrected += mended.counts.corrected
            saved += plain.counts.replayed - mended.counts.replayed
            assert not mended.counts.nondeterministic, mended.counts.why
        assert run(detector, of, restarts=0.3).emitted == run(detector, of).emitted
    assert corrected >= (20 if name in ("sum", "last b") else 1)
    assert saved > 0 or name != "sum"


def _late(detector: Detector, seq: int) -> Unit:
    """Return a unit with twenty events in order, and then one before all of them."""
    unit = Unit(behaviour_of(detector), b"")
    for number in range(20):
        unit.put("", LogEntry(Seen("C", 100 + number, 1, "s", 0, number + 1)))
    unit.advance(behind(200), key_before_all_at(0))
    unit.put("", LogEntry(Seen("A", 50, 7, "s", 0, seq)))
    unit.advance(behind(200), key_before_all_at(0))
    return unit


def test_wrong_correction_is_found() -> None:
    wrong = Detector(_sum, 0, correct=lambda state, event, told: (state + 1, None, told))
    assert _late(wrong, 7).counts.nondeterministic == 0
    found = _late(wrong, 64).counts
    assert (found.nondeterministic, found.corrected) == (1, 1)
    assert "`correct` gives another result" in found.why
    assert _late(CORRECTING["sum"], 64).counts.nondeterministic == 0


def test_bad_correction_is_replayed() -> None:
    for correct in (
        lambda state, event, told: 1 // 0,
        lambda state, event, told: (state, None, told[1:]),
        lambda state, event, told: state,
        lambda state, event, told: (state, 3, told),
    ):
        counts = _late(Detector(_sum, 0, correct=correct), 7).counts
        assert (counts.corrected, counts.replayed) == (0, 20)


def test_kit_finds_wrong_correction() -> None:
    events = [
        RawEvent(source="s", seq=n, ts_ns=10**9 + n, type="ABC"[n % 3], payload=n)
        for n in range(40)
    ]
    check_detector(CORRECTING["sum"], events)
    wrong = Detector(_sum, 0, correct=lambda state, event, told: (state + 1, None, told))
    with pytest.raises(BadDetector, match="correct"):
        check_detector(wrong, events)
