"""Draw delays by inversion: each law uses only `random()` and returns whole ns."""

from __future__ import annotations

from collections.abc import Callable
from math import exp, log
from random import Random
from statistics import NormalDist
from typing import Final

Law = Callable[[Random], int]

BASE: Final = 1
VICTIMS: Final = 2
DELAYS: Final = 3
PAYLOAD: Final = 4
LOSSES: Final = 5
COPIES: Final = 6
"""The purposes of the random generators."""

US: Final = 1_000
MS: Final = 1_000_000
S: Final = 1_000_000_000
START_NS: Final = 1_700_000_000 * S

_EDGE: Final = 1e-12
_quantile = NormalDist().inv_cdf


def generator(seed: int, purpose: int) -> Random:
    return Random(seed * 1000 + purpose)


def constant(delay_ns: int) -> Law:
    return lambda _: delay_ns


def exponential(mean_ns: int, cap_ns: int | None = None) -> Law:
    def draw(rng: Random) -> int:
        delay_ns = int(-mean_ns * log(1.0 - rng.random()))
        return delay_ns if cap_ns is None else min(cap_ns, delay_ns)

    return draw


def log_normal_of(u: float, median_ns: int, sigma: float) -> int:
    """Return the delay at the quantile `u` of a log-normal law."""
    return int(median_ns * exp(sigma * _quantile(min(max(u, _EDGE), 1.0 - _EDGE))))


def log_normal(median_ns: int, sigma: float, cap_ns: int | None = None) -> Law:
    def draw(rng: Random) -> int:
        delay_ns = log_normal_of(rng.random(), median_ns, sigma)
        return delay_ns if cap_ns is None else min(cap_ns, delay_ns)

    return draw


def sometimes(share: float, law: Law, otherwise: Law) -> Law:
    """Return a law that draws from `law` with probability `share`, else from `otherwise`."""
    return lambda rng: law(rng) if rng.random() < share else otherwise(rng)
