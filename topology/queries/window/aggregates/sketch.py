"""Computes `quantile` from buckets whose edges grow by a constant factor.

A positive number v is in the bucket k with GAMMA^(k-1) < v <= GAMMA^k. Negative numbers are treated
likewise, and a number nearer to 0 than `SMALLEST` counts as 0. A bucket has the number of its
values, the least and the largest of them. So the order of arrival does not matter, and sketches
merge bucket by bucket. The idea is that of DDSketch (Masson, Rim, Lee, VLDB 2019).

The quantile q of n values is the value at rank floor(q (n - 1)), counted from 0. If it is the first
or the last of its bucket, it is known exactly. Otherwise it is taken to be the middle of the
bucket, or the least or largest value there if the middle lies beyond it. It differs from the value
by at most `RELATIVE_ERROR`. So the quantile lies between the minimum, which it is at q = 0, and the
maximum, which it is at q = 1.

No library is used: a dictionary of buckets is a plain value, so it is stored in the state directly.
It has one entry per used bucket, but a library's array would take kilobytes per key. There are at
most 142,000 buckets, enough for all doubles.

For the lower bound, possible values are added in ascending order, and the lowest quantile on the
way is the bound. No other choice gives a lower one:

* A value below the bucket of the quantile cannot raise it, and one above cannot lower it.
* A given number of values in the bucket gives the lowest quantile if they are the smallest.
* Equal values give the lowest quantile when the first or the last of them is added.

The upper bound is computed likewise, in descending order. If a possible cell has three or more
values in one bucket, only two of them are known. The others are taken for the extreme one, so the
bound may be too wide.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence
from math import ceil, log
from sys import float_info
from typing import Any, Final

from topology.answer.query.numbers import to_json_number
from topology.queries.window.aggregates.cell import AggregateCell, Bounds, Placed
from topology.state.saved import INT, SCALAR, Shape, dict_of, tuple_of

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


Bucket = tuple[int, Any, Any]
"""The number of values in a bucket, the least and the largest of them."""


def to_real(value: Any) -> Any:
    """Return the number as a float, or as an integer if 64 bits hold it and a float does not."""
    value = to_json_number(value)
    as_float = float(value)
    return as_float if as_float == value else value


class Quantile(AggregateCell):
    """A sketch for the quantile at `ppm` millionths."""

    SHAPE = Shape("window.quantile", 1, buckets=dict_of(INT, tuple_of(INT, SCALAR, SCALAR)))
    __slots__ = ("buckets", "ppm")

    def __init__(self, ppm: int) -> None:
        self.ppm = ppm
        self.buckets: dict[int, Bucket] = {}

    def add(self, value: Any, event: Placed | None) -> None:
        if type(value) is not float:
            value = to_real(value)
        bucket = bucket_of(value)
        known = self.buckets.get(bucket)
        if known is None:
            self.buckets[bucket] = 1, value, value
        else:
            n, least, largest = known
            if value < least:
                least = value
            elif value > largest:
                largest = value
            self.buckets[bucket] = n + 1, least, largest

    def _put(self, bucket: int, n: int, least: Any, largest: Any) -> None:
        known = self.buckets.get(bucket)
        if known is not None:
            n, least, largest = n + known[0], min(least, known[1]), max(largest, known[2])
        self.buckets[bucket] = n, least, largest

    def merge(self, other: Any) -> None:
        for bucket, (n, least, largest) in other.buckets.items():
            self._put(bucket, n, least, largest)

    def copy(self) -> Quantile:
        twin = Quantile(self.ppm)
        twin.buckets = dict(self.buckets)
        return twin

    def value(self) -> Any:
        return self._find(sorted(self.buckets), self._count())[1]

    def _count(self) -> int:
        return sum(n for n, _, _ in self.buckets.values())

    def _find(self, order: Sequence[int], count: int) -> tuple[int, Any]:
        """Return the bucket of the quantile, and its value; None if the sketch is empty.

        `order`: the used buckets, ascending. `count`: the number of values.
        """
        rank = (count - 1) * self.ppm // _PPM
        for bucket in order:
            n, least, largest = self.buckets[bucket]
            if rank < n:
                if rank in (0, n - 1):
                    return bucket, largest if rank else least
                return bucket, min(max(value_in(bucket), least), largest)
            rank -= n
        return 0, None

    def bounds(self, possibles: Sequence[Any]) -> Bounds:
        return self._find_extreme(possibles, 1), self._find_extreme(possibles, -1)

    def _find_extreme(self, possibles: Sequence[Any], sign: int) -> Any:
        """Return the lowest quantile (sign 1) or the highest (sign -1)."""
        grown, order, count = self.copy(), sorted(self.buckets), self._count()
        found, extreme = grown._find(order, count)
        for value, n in _make_runs(possibles, sign):
            bucket = bucket_of(value)
            if extreme is not None and sign * bucket > sign * found:
                break
            if bucket not in grown.buckets:
                insort(order, bucket)
            for added in (1, n - 1):
                if added:
                    grown._put(bucket, added, value, value)
                    count += added
                    found, value_found = grown._find(order, count)
                    if extreme is None or sign * value_found < sign * extreme:
                        extreme = value_found
        return extreme


def _make_runs(possibles: Sequence[Any], sign: int) -> list[tuple[Any, int]]:
    """Return the values of the possible cells in order of `sign`, each with how often to add it."""
    runs = []
    for cell in possibles:
        for n, least, largest in cell.buckets.values():
            first, last = (least, largest) if sign > 0 else (largest, least)
            runs.append((last, 1))
            if n > 1:
                runs.append((first, n - 1))
    runs.sort(key=lambda run: sign * run[0])
    return runs
