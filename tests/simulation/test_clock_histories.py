"""Simulation: in each honest history of time sync the true offset lies in the interval.

Each day runs 300 mixed histories (`tests.simulation.clock_histories`), and some of each required
kind. `make laws` runs those of all days, `python -m benchmarks clock --full` runs more. A failure
prints the seed; `python -m tests.simulation.test_clock_histories SEED` runs it again.
"""

from __future__ import annotations

import sys
from random import Random
from typing import Final

import pytest

from tests.seeds import seeds_of_today
from tests.simulation.clock_histories import CONFIG, LIES, PATHS, Outcome, Plan, plan_of, run
from topology.config import ClockConfig

HISTORIES: Final = seeds_of_today(300)
PARTS: Final = 3


def outcome_of(seed: int, plan: Plan | None = None, config: ClockConfig = CONFIG) -> Outcome:
    outcome = run(seed, plan, config)
    told = plan or plan_of(Random(seed))
    assert outcome.violations == 0, f"seed {seed}: {outcome.violations} violations in {told}"
    assert outcome.undiscovered == 0, f"seed {seed}: a step was not seen in {told}"
    return outcome


@pytest.mark.parametrize("part", range(PARTS))
def test_true_offset_is_in_interval(part: int) -> None:
    outcomes = [outcome_of(seed) for seed in HISTORIES[part::PARTS]]
    # There are enough checks, and the thesis's fixed bound fails them.
    assert sum(outcome.checks for outcome in outcomes) > 10 * len(outcomes)
    assert sum(outcome.thesis_violations for outcome in outcomes) > len(outcomes)


@pytest.mark.parametrize("kind", PATHS)
def test_offset_is_in_interval_on_each_path(kind: str) -> None:
    widths = [width for seed in range(10) for width in outcome_of(seed, Plan(kind=kind)).widths_ns]
    assert widths


@pytest.mark.parametrize("lie", LIES)
def test_lying_server_breaks_no_interval(lie: str) -> None:
    """A server that shifts or drifts is also counted as a falseticker."""
    outcomes = [outcome_of(seed, Plan(servers=3, lie=lie)) for seed in range(10)]
    if lie in ("shift", "drift"):
        assert sum(outcome.falsetickers for outcome in outcomes) > 0


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("steps", [0, 1])
def test_fast_liar_never_decides(lie: str, steps: int) -> None:
    """The model knows that there are three servers, and is checked at each moment."""
    config = ClockConfig(max_error_ns=1 << 62, servers=3)
    plan = Plan(servers=3, lie=lie, head_start=5, steps=steps, told="segment", kind="lossy")
    outcomes = [outcome_of(seed, plan, config) for seed in range(10)]
    assert sum(outcome.checks for outcome in outcomes) > 100


@pytest.mark.parametrize("told", ["mono", "segment", ""])
def test_clock_steps_are_found(told: str) -> None:
    outcomes = [outcome_of(seed, Plan(steps=2, told=told)) for seed in range(10)]
    assert all(outcome.checks for outcome in outcomes)


def test_check_detects_broken_bounds() -> None:
    """With twenty times the wander that the model allows, over many bursts, the bounds break."""
    wild = Plan(wander=20 * 0.1e-6 / 60, bursts=40)
    assert sum(run(seed, wild).violations for seed in range(3)) > 0


if __name__ == "__main__":
    print(outcome_of(int(sys.argv[1])))
