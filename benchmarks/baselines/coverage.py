"""How much of a window an aggregate needs, by sampling theory (slack.md 4.3).

A window's result may be off by more than the share `error` with a probability of at most
`risk`. Missing events are taken to be independent of their values; `count` is the mean
number of events in a window, `mean` and `deviation` those of the values. Answers are the
share of the events that must be there, between 0 and 1; 1 where nothing can be said.

The thesis asks for such a threshold and gives none; these are derived from the normal
approximation of the thinned sum, and checked by simulation in the tests. Minimum,
maximum, patterns and joins have no such model: there the user names the share.
"""

from __future__ import annotations

from math import sqrt
from statistics import NormalDist


def for_count(error: float) -> float:
    return 1 - error


def for_sum(error: float, risk: float, count: float, mean: float, deviation: float) -> float:
    """For values that are not negative: the larger root of
    (1+T)x^2 - (2(1-error)+T)x + (1-error)^2 with T = z^2 (mean^2+deviation^2)/(count mean^2)."""
    if count <= 0 or mean == 0:
        return 1.0
    t = _z(risk) ** 2 * (mean**2 + deviation**2) / (count * mean**2)
    b = 2 * (1 - error) + t
    root = sqrt(b * b - 4 * (1 + t) * (1 - error) ** 2)
    return min(1.0, (b + root) / (2 * (1 + t)))


def for_mean(error: float, risk: float, count: float, mean: float, deviation: float) -> float:
    if count <= 0 or mean == 0:
        return 1.0
    spread = (_z(risk) * deviation) ** 2
    return spread / (spread + count * (error * mean) ** 2)


def _z(risk: float) -> float:
    return NormalDist().inv_cdf(1 - risk / 2)
