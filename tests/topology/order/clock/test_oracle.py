"""Oracle: the polygon agrees with the crossings of all limits, and these with a grid of lines."""

from __future__ import annotations

from fractions import Fraction
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.topology.order.clock.oracle import Rounds, exact, on_grid
from topology.order.clock.polygon import Bounds, Polygon, polygon_of

S = 10**9
US = 1_000
YEAR_2200 = 7_258_118_400 * S
SKEW_PPB = 250_000


def polygon(rounds: Rounds) -> Polygon | None:
    uppers, lowers = Bounds(rounds.skew_ppb), Bounds(rounds.skew_ppb)
    for t_ns, upper_ns in rounds.uppers:
        uppers.add(t_ns, upper_ns)
    for t_ns, lower_ns in rounds.lowers:
        lowers.add(t_ns, -lower_ns)
    half_wander = rounds.wander_ppb_per_min / 1e9 / 60e9 / 2
    return polygon_of(uppers, lowers, 600 * S, rounds.skew_ppb / 1e9, half_wander)


def drawn(random: Random, offset_ns: int = 0, at_ns: int = 0, n: int = 5) -> Rounds:
    """Return true rounds of a clock with a constant rate, over five minutes."""
    rate = random.uniform(-200e-6, 200e-6)
    uppers, lowers = [], []
    for _ in range(n):
        t_ns = random.randrange(300 * S)
        true_ns = offset_ns + round(rate * t_ns)
        uppers.append((at_ns + t_ns, true_ns + int(random.expovariate(1 / (200 * US)))))
        t_ns += random.randrange(S)
        true_ns = offset_ns + round(rate * t_ns)
        lowers.append((at_ns + t_ns, true_ns - int(random.expovariate(1 / (200 * US)))))
    return Rounds(uppers, lowers, SKEW_PPB, random.choice((0, 100)))


def test_two_rounds_match_hand_result() -> None:
    """D is in [-1, 1] us at 0 and at 100 s, so lines through the corners give ±3 us at 200 s."""
    ends = ((0, 1_000), (100 * S, 1_000))
    rounds = Rounds(ends, [(t, -u) for t, u in ends], SKEW_PPB, 0)
    assert exact(rounds, 200 * S) == (Fraction(-3_000), Fraction(3_000))
    assert exact(rounds, 50 * S) == (Fraction(-1_000), Fraction(1_000))
    found = polygon(rounds)
    assert found is not None
    low_ns, high_ns = found.offsets_at(200 * S)
    assert -3_005 <= low_ns <= -3_000
    assert 3_000 <= high_ns <= 3_005


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_grid_is_within_exact_bounds(seed: int) -> None:
    """With rates in units of 2 us a second there are few enough lines to try all."""
    random = Random(seed)
    rate_ppb = random.randrange(-40, 41) * 1_000
    uppers = [(t * S, t * rate_ppb + random.randrange(1, 40_000)) for t in (0, 3, 7)]
    lowers = [(t * S, t * rate_ppb - random.randrange(1, 40_000)) for t in (1, 4, 8)]
    rounds = Rounds(uppers, lowers, 50_000, 0)
    grid = on_grid(rounds, 10 * S, range(-450_000, 450_000, 4_000), range(-50_000, 50_001, 2_000))
    right = exact(rounds, 10 * S)
    assert right is not None
    assert grid is not None
    assert right[0] <= grid[0] <= grid[1] <= right[1]
    assert (right[1] - right[0]) - (grid[1] - grid[0]) < 60_000


@pytest.mark.slow
@pytest.mark.parametrize("offset_ns", [0, -3_600 * S, 55 * 365 * 86_400 * S])
@pytest.mark.parametrize("at_ns", [0, 1_750_000_000 * S, YEAR_2200])
@pytest.mark.parametrize("seed", range(4))
def test_polygon_is_exact_to_3_ns(seed: int, at_ns: int, offset_ns: int) -> None:
    rounds = drawn(Random(seed), offset_ns, at_ns)
    found = polygon(rounds)
    assert found is not None
    for after_ns in (-300 * S, 0, 123_456_789_012, 300 * S, 400 * S):
        t_ns = at_ns + after_ns
        inner, outer = exact(rounds, t_ns), exact(rounds, t_ns, slack_ns=1)
        assert inner is not None
        assert outer is not None
        low_ns, high_ns = found.offsets_at(t_ns)
        assert low_ns <= inner[0] <= inner[1] <= high_ns
        assert outer[0] - low_ns < 3
        assert high_ns - outer[1] < 3


Reading = tuple[int, int]
readings = st.lists(
    st.tuples(st.integers(0, 20), st.integers(-3_000, 3_000)), min_size=1, max_size=5
)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(uppers=readings, lowers=readings)
def test_polygon_contains_exact_interval(uppers: list[Reading], lowers: list[Reading]) -> None:
    """Times are in seconds, offsets in units of 100 us; many rounds contradict each other."""
    rounds = Rounds(
        [(t * S, u * 100 * US) for t, u in uppers],
        [(t * S, v * 100 * US) for t, v in lowers],
        SKEW_PPB,
        100,
    )
    found = polygon(rounds)
    right = exact(rounds, 25 * S)
    if found is None:
        assert right is None
        return
    outer = exact(rounds, 25 * S, slack_ns=2)
    assert outer is not None
    low_ns, high_ns = found.offsets_at(25 * S)
    assert low_ns >= outer[0] - 3
    assert high_ns <= outer[1] + 3
    if right is not None:
        assert low_ns <= right[0] <= right[1] <= high_ns
