"""Examples: the published figures of each recipe; laws: properties of every seed."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from statistics import mean

import pytest

from benchmarks.workloads import (
    D1,
    D2,
    D3,
    Recipe,
    Row,
    Workload,
    bursts,
    crowd,
    figures,
    lose,
    loss_storm,
    rate_steps,
    regimes,
    soccer,
)

MS = 1_000_000
S = 1_000_000_000


@pytest.mark.parametrize(
    ("recipe", "n", "descents", "largest_step_ms", "step_means_ms"),
    [
        pytest.param(D1, 499_982, 62_473, 980, (0.10, 0.30), marks=pytest.mark.long),
        (D2, 499_499, 62_409, 1_800, (0.16, 0.56)),
        pytest.param(D3, 999_499, 83_212, 30_000, (0.5, 8.3), marks=pytest.mark.long),
    ],
    ids=["D1", "D2", "D3"],
)
def test_soccer_has_published_figures(
    recipe: Recipe, n: int, descents: int, largest_step_ms: int, step_means_ms: tuple[float, float]
) -> None:
    rows = soccer(recipe).rows
    found = figures(rows)
    assert (found.n, found.sources, found.missing, found.copies) == (n, 1, 0, 0)
    assert found.descents == found.late == found.overtaken == found.source_descents == descents
    assert found.largest_step_ns // MS == largest_step_ms
    steps = [abs(after.ts_ns - before.ts_ns) / MS for before, after in pairwise(rows)]
    means = [mean(steps[at : at + 10_000]) for at in range(0, n - 10_000, 10_000)]
    low, high = step_means_ms
    assert low - 0.05 <= min(means) <= max(means) <= high + 0.05


@pytest.mark.parametrize("seed", range(1, 6))
@pytest.mark.parametrize("recipe", [D1, D2, D3], ids=["D1", "D2", "D3"])
def test_law_descents_are_exact(recipe: Recipe, seed: int) -> None:
    short = recipe.shorten(20)
    found = figures(soccer(short, seed).rows)
    assert (found.n, found.descents, found.late) == (short.n, short.descents, short.descents)


def test_lost_records_are_missing() -> None:
    whole = soccer(D1.shorten(20))
    lossy = lose(whole, 0.01)
    assert 150 < len(lossy.lost) < 350
    assert figures(lossy.rows).missing == len(lossy.lost) == len(whole.rows) - len(lossy.rows)
    assert {(row.source, row.seq) for row in whole.rows} == set(lossy.lost) | {
        (row.source, row.seq) for row in lossy.rows
    }


def test_crowd_has_its_known_shares() -> None:
    workload = crowd(200_000)
    found = figures(workload.rows)
    assert found.sources == 20
    assert 0.114 < (found.overtaken + found.copies) / found.n < 0.118
    assert found.missing <= len(workload.lost)  # A record lost at an end does not count as missing.
    assert found.missing > len(workload.lost) - 3
    assert found.copies == len(workload.doubled)
    silences = {
        source: max(after - before for before, after in pairwise(sorted(_stamps(workload, source))))
        for source in {row.source for row in workload.rows}
    }
    assert [source for source, ns in silences.items() if ns > S] == ["s07"]
    assert 2 * S <= silences["s07"] <= 2 * S + 10 * MS


def _stamps(workload: Workload, source: str) -> list[int]:
    return [row.ts_ns for row in workload.rows if row.source == source]


def test_regimes_change_delays() -> None:
    rows = regimes().rows
    start_ns = min(row.ts_ns for row in rows)
    mean_ms = [
        mean(
            (row.arrival_ns - row.ts_ns) / MS
            for row in rows
            if 20 * phase * S <= row.ts_ns - start_ns < 20 * (phase + 1) * S
        )
        for phase in range(4)
    ]
    assert mean_ms == pytest.approx([1.2, 5.0, 8.2, 1.2], rel=0.1)


def test_burst_releases_all_at_once() -> None:
    arrivals = [row.arrival_ns for row in bursts().rows]
    together = max(arrivals.count(at) for at in {a for a in arrivals if a % (5 * S) == 300 * MS})
    assert 250 <= together <= 350


def test_rates_and_losses_step_as_stated() -> None:
    assert figures(rate_steps().rows).n == 20 * 200 + 60 * 5 + 20 * 2000 + 20 * 200
    storm = loss_storm()
    lost_s = [seq // 1000 for _, seq in storm.lost]
    assert sum(second < 20 for second in lost_s) == 0
    assert 900 < sum(20 <= second < 40 for second in lost_s) < 1100
    assert 5 < sum(second >= 40 for second in lost_s) < 40


@pytest.mark.parametrize(
    "recipe",
    [
        lambda seed: soccer(D2.shorten(50), seed),
        lambda seed: lose(soccer(D1.shorten(50), seed), 0.01),
        lambda seed: crowd(5_000, seed),
        regimes,
        bursts,
        rate_steps,
        loss_storm,
    ],
)
def test_law_seed_gives_workload(recipe: Callable[[int], Workload]) -> None:
    rows = recipe(3).rows
    assert rows == recipe(3).rows
    assert rows != recipe(4).rows
    assert all(before.arrival_ns <= after.arrival_ns for before, after in pairwise(rows))
    assert all(row.ts_ns <= row.arrival_ns for row in rows)


def test_figures_count_a_small_example() -> None:
    rows = [Row(1, "a", 0, 10), Row(2, "b", 5, 4), Row(3, "a", 3, 30), Row(4, "a", 1, 20)]
    rows += [Row(5, "a", 1, 20), Row(6, "b", 6, 40)]
    found = figures(rows)
    assert (found.n, found.sources, found.descents, found.source_descents) == (6, 2, 2, 1)
    assert (found.late, found.overtaken, found.missing, found.copies) == (3, 1, 1, 1)
    assert (found.span_ns, found.largest_lateness_ns, found.largest_step_ns) == (36, 10, 26)
    assert figures([]).n == 0
