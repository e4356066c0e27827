"""Compute quantiles of many numbers by nearest rank.

A quantile is the smallest number that at least a given share of all numbers does not exceed.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import Final

from inorder.contract import MAX_INT64

NS_PER_MS: Final = 1e6
RANKS: Final = {"p50": 500, "p90": 900, "p99": 990, "p999": 999, "max": 1_000}
"""The rank of each quantile, in thousandths."""


def clip_ns(duration_ns: int) -> int:
    """Return the duration, or the longest one of 64 bits; timestamps may be further apart."""
    return min(duration_ns, MAX_INT64)


def nearest_rank(rising: array[int], thousandths: int) -> int:
    """Return the number at this rank, or 0 if there are no numbers."""
    return rising[rank_of(len(rising), thousandths)] if rising else 0


def rank_of(count: int, thousandths: int) -> int:
    """Return the place of a quantile among `count` numbers in ascending order, from 0."""
    return max(0, -(-count * thousandths // 1_000) - 1)


def sort_values(each_ns: Iterable[int]) -> array[int]:
    """Return the numbers in ascending order."""
    return array("q", sorted(each_ns))


def quantiles_ms(each_ns: Iterable[int], names: Iterable[str] = RANKS) -> dict[str, float]:
    """Return the quantiles in ms by name, all 0 if there are no numbers."""
    rising = sort_values(each_ns)
    return {name: nearest_rank(rising, RANKS[name]) / NS_PER_MS for name in names}
