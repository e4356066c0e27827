"""Laws: however far a detector speculates, and however often it goes back, its current results are
those of an in-order run. The oracle is `oracle.truth`.
"""

from __future__ import annotations

import pytest

from tests.seeds import seeds_of_today
from tests.topology.queries.detector.oracle import DETECTORS
from tests.topology.queries.detector.worlds import Run, everything, nothing_early, run, some, world
from topology.base.result import EMIT, UPDATE

SEEDS = seeds_of_today(20)
LONG = 3_000
"""Worlds for each detector, of six runs each."""
NAMES = list(DETECTORS)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "seeds",
    [
        SEEDS,
        pytest.param(
            range(10**6, 10**6 + LONG), marks=[pytest.mark.long, pytest.mark.timeout(1_800)]
        ),
    ],
)
def test_results_match_in_order_run(seeds: range, name: str) -> None:
    detector = DETECTORS[name]
    for seed in seeds:
        of = world(seed)
        first = run(detector, of)
        assert run(detector, of, restarts=0.3).emitted == first.emitted, "a restart changes nothing"
        late, whole = run(detector, of, nothing_early), run(detector, of, everything)
        assert first.standing == late.standing == whole.standing, "however far is read ahead"
        assert first.late == late.late == whole.late
        told = [run(detector, of, goal, finals=True).finals for goal in (nothing_early, some)]
        assert told[0] == told[1], "what is final is the same"
        _plain_buffering(late)


def _plain_buffering(found: Run) -> None:
    records = [record for call in found.records for record in call]
    assert all(record.op in (EMIT, UPDATE) for record in records)
    assert all(record.final or not record.output.last for record in records)
    assert found.counts.rollbacks == found.counts.replayed == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("spacing", [1, 3, 1_000])
def test_checkpoints_change_nothing(name: str, spacing: int) -> None:
    detector = DETECTORS[name]
    for seed in seeds_of_today(8):
        of = world(seed)
        plain = run(detector, of, everything, converges=False).emitted
        assert run(detector, of, everything, spacing=spacing).emitted == plain


@pytest.mark.parametrize("name", NAMES)
def test_keys_are_independent(name: str) -> None:
    detector = DETECTORS[name]
    for seed in seeds_of_today(8):
        of = world(seed)
        both = [each for call in run(detector, of, everything).emitted for each in call]
        for key in "ab":
            alone = run(detector, of, everything, keys=key).emitted
            assert [each for call in alone for each in call] == [
                each for each in both if each[3] == key
            ]


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_some_replays_converge(name: str) -> None:
    """Without such replays, the laws would not cover the early end of a replay."""
    counts = [run(DETECTORS[name], world(seed), everything).counts for seed in range(40)]
    assert sum(each.replayed for each in counts) > 0
    assert sum(each.converged for each in counts) > 0
