"""Examples and an oracle for the ways to wait that only comparisons use."""

from __future__ import annotations

from random import Random

import pytest

from benchmarks.baselines import coverage
from benchmarks.baselines.k_slack_chain import KSlackChain, worth_sharing
from tests.kit.events import copies
from tests.topology.waiting.strategies import MS, disordered
from topology.reorder.time_buffer import TimeBuffer
from topology.waiting.fixed import KSlack


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (coverage.for_count(0.03), 0.97),
        (coverage.for_sum(0.03, 0.05, 1_000, 1, 1), 0.9817),
        (coverage.for_mean(0.03, 0.05, 1_000, 1, 1), 0.8102),
        (coverage.for_sum(0.03, 0.05, 0, 1, 1), 1),
        (coverage.for_mean(0.03, 0.05, 1_000, 0, 1), 1),
    ],
)
def test_the_coverage_an_aggregate_needs(found: float, expected: float) -> None:
    assert found == pytest.approx(expected, abs=5e-5)


@pytest.mark.parametrize("aggregate", ["sum", "mean"])
def test_that_coverage_keeps_the_error_by_simulation(aggregate: str) -> None:
    """1 000 values of an exponential law a window, each there with the needed share."""
    needed = coverage.for_sum if aggregate == "sum" else coverage.for_mean
    there = needed(0.03, 0.05, 1_000, 1, 1)
    rng = Random(1)
    violations = 0
    for _ in range(400):
        values = [rng.expovariate(1) for _ in range(1_000)]
        kept = [value for value in values if rng.random() < there]
        whole, found = sum(values), sum(kept)
        if aggregate == "mean":
            whole, found = whole / len(values), found / len(kept)
        violations += abs(found - whole) > 0.03 * whole
    assert 1 <= violations <= 36


def test_sharing_one_store_pays_where_queries_take_most_of_the_stream() -> None:
    assert not worth_sharing([100_000, 100_000], [10, 10])
    assert worth_sharing([900_000, 900_000], [10, 10])


@pytest.mark.parametrize("seed", range(5))
def test_taps_of_a_chain_are_separate_buffers(seed: int) -> None:
    ks_ns = [12 * MS, 0, 3 * MS, 40 * MS]
    events = disordered(seed)
    chain = KSlackChain(ks_ns)
    tapped = chain.on_batch(copies(events), events[-1].at_ns)
    most = chain.held
    tapped += chain.on_end()
    assert most <= len(events)
    assert chain.held == 0
    for tap, k_ns in enumerate(ks_ns):
        mine = [(one.event.offset, one.at_ns, one.late) for one in tapped if one.tap == tap]
        own = TimeBuffer(KSlack(k_ns))
        step = own.on_batch(copies(events), events[-1].at_ns)
        rest = own.on_end(events[-1].at_ns)
        alone = [(one.offset, one.at_ns, bool(one.late)) for one in step.released + rest.released]
        assert sorted(mine) == sorted(alone)
        assert [one for one in mine if not one[2]] == [one for one in alone if not one[2]]
