"""Quantiles of many numbers by nearest rank: the smallest that so many parts of them do not
exceed."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import Final

NS_PER_MS: Final = 1e6
RANKS: Final = {"p50": 500, "p90": 900, "p99": 990, "p999": 999, "max": 1_000}
"""In thousandths."""


def nearest_rank(rising: array[int], thousandths: int) -> int:
    """0 of nothing."""
    if not rising:
        return 0
    return rising[max(0, -(-len(rising) * thousandths // 1_000) - 1)]


def ranked(each_ns: Iterable[int]) -> array[int]:
    """The numbers as they rise."""
    return array("q", sorted(each_ns))


def ranks_ms(each_ns: Iterable[int], names: Iterable[str] = RANKS) -> dict[str, float]:
    """All 0 of nothing."""
    rising = ranked(each_ns)
    return {name: nearest_rank(rising, RANKS[name]) / NS_PER_MS for name in names}
