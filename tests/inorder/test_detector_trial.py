"""Examples: the trial of a detector reports its defects and measures its state."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from inorder.trial import MAX_PROBLEMS, run_trial
from topology.queries.detector.detector import Detector, behaviour_of
from topology.queries.detector.item import Seen

EVENTS = [Seen("A", time_ns, {"n": time_ns}, "s", 0, time_ns) for time_ns in range(9)]
CALLS = count()


class Kept:
    def __init__(self, seq: int) -> None:
        self.seq = seq


def _appends(state: list[int], event: Seen) -> Any:
    state.append(event.time_ns)
    return state, None


def _spoils(state: int, event: Seen) -> Any:
    event.payload["n"] = 0
    return state, None


@pytest.mark.parametrize(
    ("detector", "wrong"),
    [
        (Detector(lambda s, e: (next(CALLS), None), 0), "to two different states"),
        (Detector(lambda s, e: (s, {"n": next(CALLS)}), 0), "it returns"),
        (Detector(_appends, []), "changes its arguments"),
        (Detector(_spoils, 0), "changes its arguments"),
        (Detector(lambda s, e: (s + 1 / (e.seq - 5), None), 0), "raises ZeroDivisionError"),
        (Detector(lambda s, e: (Kept(e.seq), None), 0), "cannot be stored: it contains a Kept"),
        (Detector(lambda s, e: ("\ud800", None), ""), "lone surrogate"),
        (Detector(lambda s, e: (s, {"t": "\ud800"}), 0), "lone surrogate"),
        (Detector(lambda s, e: (s + "x" * 1_000_000, None), ""), "more than 100,000 values"),
        (Detector(lambda s, e: (s, {"t": "x" * 2_000_000}), 0), "or 1 MiB, for one item"),
    ],
)
def test_defect_is_reported(detector: Any, wrong: str) -> None:
    trial = run_trial(behaviour_of(detector), EVENTS)
    assert wrong in trial.problems[0]
    assert len(trial.problems) <= MAX_PROBLEMS


def test_state_can_contain_events() -> None:
    trial = run_trial(behaviour_of(Detector(lambda s, e: ((*s, e)[-2:], None), ())), EVENTS)
    assert trial.problems == []
    assert trial.state_values == 1 + 2 * (1 + len(("payload", "name", "number")))


def test_sound_detector_is_measured() -> None:
    detector = Detector(
        lambda state, event: ((*state, event.seq), {"n": event.seq}),
        (),
        lambda state: state[-1] + 1 if len(state) == len(EVENTS) else None,
        lambda state, time_ns: (state[:3], {"at": time_ns}),
    )
    trial = run_trial(behaviour_of(detector), EVENTS)
    assert trial.problems == []
    assert (trial.items, trial.results, trial.state_values) == (10, 10, 10)
