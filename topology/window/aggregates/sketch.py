"""Computes `quantile` from counts in buckets whose edges grow by a constant factor.

A positive number v is in the bucket k with GAMMA^(k-1) < v <= GAMMA^k. Its value is taken to be the
middle of the bucket, which differs from v by at most `RELATIVE_ERROR`. Negative numbers are treated
likewise, and a number nearer to 0 than `SMALLEST` counts as 0. So the order of arrival does not
matter, and sketches merge by adding counts. The idea is that of DDSketch (Masson, Rim, Lee, VLDB
2019).

The quantile q of n values is the value at rank floor(q (n - 1)), counted from 0. At q = 0 it is the
minimum, and at q = 1 the maximum, within the same error.

No library is used: a dictionary of counts is a plain value, so it is stored in the state directly.
It has one entry per used bucket, but a library's array would take kilobytes per key. There are at
most 142,000 buckets, enough for all doubles.

For the lower bound, possible values are added in ascending order, as long as they are at most the
quantile. Each of them can only lower the quantile. The upper bound is computed likewise, in
descending order.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, log
from sys import float_info
from typing import Any, Final

from topology.model.operator import Plain
from topology.window.aggregates.cell import AggregateCell, Bounds, Placed, merged

RELATIVE_ERROR: Final = 0.01
GAMMA: Final = (1 + RELATIVE_ERROR) / (1 - RELATIVE_ERROR)
SMALLEST: Final = 1e-300
_LOG_GAMMA: Final = log(GAMMA)
_OFFSET: Final = 1 << 20
"""The offset that keeps the indices of positive numbers above 0; it exceeds every exponent."""
_PPM: Final = 1_000_000


def bucket_of(value: float) -> int:
    """Return the index of the value's bucket; it ascends with the value, and is 0 for 0."""
    size = abs(value)
    if size < SMALLEST:
        return 0
    index = ceil(log(size) / _LOG_GAMMA) + _OFFSET
    return index if value > 0 else -index


def value_in(bucket: int) -> float:
    if bucket == 0:
        return 0.0
    sign = 1 if bucket > 0 else -1
    exponent = abs(bucket) - _OFFSET
    # Computed from the lower edge, because the upper edge of the topmost bucket overflows a double.
    # `min` guards the middle, which could overflow with another GAMMA.
    middle = GAMMA ** (exponent - 1) * (2 * GAMMA / (1 + GAMMA))
    return sign * min(middle, float_info.max)


class Quantile(AggregateCell):
    """A sketch for the quantile at `ppm` millionths; `counts` is the number of values by bucket."""

    __slots__ = ("counts", "ppm")

    def __init__(self, ppm: int) -> None:
        self.ppm = ppm
        self.counts: dict[int, int] = {}

    def add(self, value: Any, event: Placed | None) -> None:
        bucket = bucket_of(value)
        self.counts[bucket] = self.counts.get(bucket, 0) + 1

    def merge(self, other: Any) -> None:
        counts = self.counts
        for bucket, n in other.counts.items():
            counts[bucket] = counts.get(bucket, 0) + n

    def copy(self) -> Quantile:
        twin = Quantile(self.ppm)
        twin.counts = dict(self.counts)
        return twin

    def value(self) -> Any:
        bucket = self._bucket()
        return None if bucket is None else value_in(bucket)

    def _bucket(self) -> int | None:
        rank = (sum(self.counts.values()) - 1) * self.ppm // _PPM
        for bucket in sorted(self.counts):
            rank -= self.counts[bucket]
            if rank < 0:
                return bucket
        return None

    def bounds(self, possibles: Sequence[Any]) -> Bounds:
        pooled = merged(Quantile(self.ppm), possibles)
        return self._extreme(pooled.counts, 1), self._extreme(pooled.counts, -1)

    def _extreme(self, possibles: dict[int, int], sign: int) -> Any:
        grown = self.copy()
        found = grown._bucket()
        for bucket in sorted(possibles, reverse=sign < 0):
            if found is not None and sign * bucket > sign * found:
                break
            grown.counts[bucket] = grown.counts.get(bucket, 0) + possibles[bucket]
            found = grown._bucket()
        return grown.value()

    def dump(self) -> Plain:
        return [[bucket, n] for bucket, n in sorted(self.counts.items())]

    def load(self, state: Plain) -> None:
        self.counts = {bucket: n for bucket, n in state}  # noqa: C416
