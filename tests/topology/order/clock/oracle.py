"""Oracle of CLOCK: the slow, obvious computation of the offsets that rounds leave possible.

A line is (theta, rho), its value and rate at t0. `exact` crosses every two limits, keeps the points
that violate none, and takes the smallest and largest value at t, in fractions. Extremes of a linear
function over a polygon are at its corners. `on_grid` tries each line of a grid. See
reorder_drift_merge.md 2.3.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import combinations
from typing import NamedTuple

PPB = 10**9
NS_PER_MIN = 60 * 10**9


class Rounds(NamedTuple):
    """Limits of an offset: D <= u at t for (t, u) in `uppers`, D >= l at t for (t, l) in `lowers`;
    ns.
    """

    uppers: Sequence[tuple[int, int]]
    lowers: Sequence[tuple[int, int]]
    skew_ppb: int
    wander_ppb_per_min: int

    @property
    def t0_ns(self) -> int:
        return max(t for t, _ in (*self.uppers, *self.lowers))

    def strayed(self, t_ns: int) -> Fraction:
        """Return the largest deviation of the clock at `t_ns` from its line at t0."""
        x = t_ns - self.t0_ns
        wander = Fraction(self.wander_ppb_per_min, PPB * NS_PER_MIN)
        return min(wander * x * x / 2, 2 * Fraction(self.skew_ppb, PPB) * abs(x))


Limit = tuple[Fraction, Fraction, Fraction]
"""(a, b, c): a theta + b rho <= c."""


def limits(rounds: Rounds, slack_ns: int = 0) -> list[Limit]:
    skew = Fraction(rounds.skew_ppb, PPB)
    one, none = Fraction(1), Fraction(0)
    found: list[Limit] = [(none, one, skew), (none, -one, skew)]
    for t_ns, most_ns in rounds.uppers:
        most = most_ns + slack_ns + rounds.strayed(t_ns)
        found.append((one, Fraction(t_ns - rounds.t0_ns), most))
    for t_ns, least_ns in rounds.lowers:
        most = -least_ns + slack_ns + rounds.strayed(t_ns)
        found.append((-one, Fraction(rounds.t0_ns - t_ns), most))
    return found


def corners(rounds: Rounds, slack_ns: int = 0) -> Iterator[tuple[Fraction, Fraction]]:
    every = limits(rounds, slack_ns)
    for (a, b, c), (d, e, f) in combinations(every, 2):
        area = a * e - b * d
        if area == 0:
            continue
        theta, rho = (c * e - b * f) / area, (a * f - c * d) / area
        if all(g * theta + h * rho <= most for g, h, most in every):
            yield theta, rho


def exact(rounds: Rounds, t_ns: int, slack_ns: int = 0) -> tuple[Fraction, Fraction] | None:
    """Return the smallest and the largest offset at t; None if the rounds contradict each other."""
    x = t_ns - rounds.t0_ns
    values = [theta + rho * x for theta, rho in corners(rounds, slack_ns)]
    if not values:
        return None
    wander = Fraction(rounds.wander_ppb_per_min, PPB * NS_PER_MIN) * x * x / 2
    return min(values) - wander, max(values) + wander


def on_grid(
    rounds: Rounds, t_ns: int, thetas: Sequence[int], rates_ppb: Sequence[int]
) -> tuple[Fraction, Fraction] | None:
    """Return the smallest and the largest offset at t over the lines of a grid."""
    every = limits(rounds)
    x = t_ns - rounds.t0_ns
    values = []
    for theta in thetas:
        for rate_ppb in rates_ppb:
            rho = Fraction(rate_ppb, PPB)
            if all(a * theta + b * rho <= c for a, b, c in every):
                values.append(theta + rho * x)
    if not values:
        return None
    wander = Fraction(rounds.wander_ppb_per_min, PPB * NS_PER_MIN) * x * x / 2
    return min(values) - wander, max(values) + wander
