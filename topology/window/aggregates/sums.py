"""count, sum, avg and stddev: aggregates that are made of sums.

`sum` of nothing is 0; `avg` and `stddev` of nothing are None. `stddev` is that of the
population: the root of the mean square distance from the mean. Bounds over free choices:

* count, sum: each possible group adds what it has, or not.
* avg: from the certain ones on, the groups of the largest (smallest) mean are taken in as
  long as they raise (lower) it; no other choice does better.
* stddev: from the extremes of the sums, each for itself; an outer bound.

Memory: 3 integers a cell, 4 for stddev. Cost: an exact addition per value (`numbers`).
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from topology.model.kept import packed, unpacked
from topology.model.operator import Plain
from topology.query.numbers import (
    WEIGHT_BITS,
    WHOLE_WEIGHT,
    json_number,
    quotient,
    root,
)
from topology.window.aggregates.cell import AggregateCell, Bounds, Placed


class Count(AggregateCell):
    """How many events."""

    __slots__ = ("n",)

    weighs = True
    additive = True

    def __init__(self) -> None:
        self.n = 0

    def add(self, value: Any, event: Placed) -> None:
        self.n += 1

    def merge(self, other: Any) -> None:
        self.n += other.n

    def value(self) -> Any:
        return self.n

    def weighted(self, possibles: Sequence[tuple[Any, int]]) -> Any:
        total = self.n * WHOLE_WEIGHT + sum(cell.n * weight for cell, weight in possibles)
        whole, rest = divmod(total, WHOLE_WEIGHT)
        return quotient(total, WHOLE_WEIGHT) if rest else whole

    def bounds(self, possibles: Sequence[Any]) -> Bounds:
        return self.within(0, sum(self.sizes(possibles)))

    def sizes(self, possibles: Sequence[Any]) -> list[int]:
        return [cell.n for cell in possibles]

    def within(self, low: int, high: int) -> Bounds:
        return self.n + low, self.n + high

    def dump(self) -> Plain:
        return self.n

    def load(self, state: Plain) -> None:
        self.n = state


class Sum(AggregateCell):
    """`total` in units of 2^-shift; `shift` is 0 as long as all values are whole."""

    __slots__ = ("n", "shift", "total")

    weighs = True
    additive = True

    def __init__(self) -> None:
        self.n = 0
        self.total = 0
        self.shift = 0

    def add(self, value: Any, event: Placed) -> None:
        self.n += 1
        if type(value) is int:
            self.total += value << self.shift
            return
        numerator, denominator = value.as_integer_ratio()
        shift = denominator.bit_length() - 1
        if shift > self.shift:
            self.refine(shift)
        self.total += numerator << (self.shift - shift)

    def refine(self, shift: int) -> None:
        self.total <<= shift - self.shift
        self.shift = shift

    def merge(self, other: Any) -> None:
        if other.shift > self.shift:
            self.refine(other.shift)
        self.n += other.n
        self.total += other.total << (self.shift - other.shift)

    def number_of(self, total: int, shift: int) -> Any:
        whole, rest = divmod(total, 1 << shift)
        return quotient(total, 1 << shift) if rest or self.shift else json_number(whole)

    def value(self) -> Any:
        return self.number_of(self.total, self.shift)

    def weighed(self, possibles: Sequence[tuple[Any, int]]) -> tuple[int, int]:
        """Weighted number and total, in units of 1 / WHOLE_WEIGHT and of that 2^-shift."""
        self.refine(max([self.shift, *(cell.shift for cell, _ in possibles)]))
        n, total = self.n * WHOLE_WEIGHT, self.total * WHOLE_WEIGHT
        for cell, weight in possibles:
            n += cell.n * weight
            total += (cell.total * weight) << (self.shift - cell.shift)
        return n, total

    def weighted(self, possibles: Sequence[tuple[Any, int]]) -> Any:
        _, total = self.weighed(possibles)
        return self.number_of(total, self.shift + WEIGHT_BITS)

    def bounds(self, possibles: Sequence[Any]) -> Bounds:
        return self.within(*self.spread(possibles))

    def spread(self, possibles: Sequence[Any]) -> tuple[int, int]:
        sizes = self.sizes(possibles)
        return sum(size for size in sizes if size < 0), sum(size for size in sizes if size > 0)

    def sizes(self, possibles: Sequence[Any]) -> list[int]:
        self.refine(max([self.shift, *(cell.shift for cell in possibles)]))
        return [cell.total << (self.shift - cell.shift) for cell in possibles]

    def within(self, low: int, high: int) -> Bounds:
        return self.number_of(self.total + low, self.shift), self.number_of(
            self.total + high, self.shift
        )

    def dump(self) -> Plain:
        return [self.n, packed(self.total), self.shift]

    def load(self, state: Plain) -> None:
        self.n, total, self.shift = state
        self.total = unpacked(total)


class Average(Sum):
    """Ratio of the sums."""

    __slots__ = ()

    additive = False

    def value(self) -> Any:
        return quotient(self.total, self.n << self.shift) if self.n else None

    def weighted(self, possibles: Sequence[tuple[Any, int]]) -> Any:
        n, total = self.weighed(possibles)
        return quotient(total, n << self.shift) if n else None

    def bounds(self, possibles: Sequence[Any]) -> Bounds:
        if not possibles:
            value = self.value()
            return value, value
        sizes = self.sizes(possibles)
        groups = [(size, cell.n) for size, cell in zip(sizes, possibles, strict=True) if cell.n]
        groups.sort(key=mean)
        return self._extreme(groups, 1), self._extreme(groups[::-1], -1)

    def _extreme(self, groups: Sequence[tuple[int, int]], sign: int) -> Any:
        """Take groups in as long as they lower (sign 1) or raise (-1) the mean."""
        total, n = self.total, self.n
        for part, size in groups:
            if n and sign * (part * n - total * size) >= 0:
                break
            total += part
            n += size
        return quotient(total, n << self.shift) if n else None


def mean(group: tuple[int, int]) -> Fraction:
    return Fraction(*group)


class Deviation(Sum):
    """`squares` in units of 2^-(2 shift)."""

    __slots__ = ("squares",)

    additive = False

    def __init__(self) -> None:
        super().__init__()
        self.squares = 0

    def add(self, value: Any, event: Placed) -> None:
        super().add(value, event)
        if type(value) is int:
            self.squares += (value * value) << (2 * self.shift)
            return
        numerator, denominator = value.as_integer_ratio()
        finer = self.shift - (denominator.bit_length() - 1)
        self.squares += (numerator * numerator) << (2 * finer)

    def refine(self, shift: int) -> None:
        self.squares <<= 2 * (shift - self.shift)
        super().refine(shift)

    def merge(self, other: Any) -> None:
        super().merge(other)
        self.squares += other.squares << (2 * (self.shift - other.shift))

    def value(self) -> Any:
        return self._root(self.n, self.total, self.squares)

    def _root(self, n: int, total: int, squares: int) -> Any:
        if not n:
            return None
        return root(n * squares - total * total, (n * n) << (2 * self.shift))

    def weighted(self, possibles: Sequence[tuple[Any, int]]) -> Any:
        n, total = self.weighed(possibles)
        squares = self.squares * WHOLE_WEIGHT
        for cell, weight in possibles:
            squares += (cell.squares * weight) << (2 * (self.shift - cell.shift))
        return self._root(n, total, squares)

    def bounds(self, possibles: Sequence[Any]) -> Bounds:
        possibles = [cell for cell in possibles if cell.n]
        if not possibles:
            value = self.value()
            return value, value
        low, high = (self.total + part for part in self.spread(possibles))
        more = sum(cell.squares << (2 * (self.shift - cell.shift)) for cell in possibles)
        fewest = max(1, self.n)
        most = max(1, self.n + sum(cell.n for cell in possibles))
        farthest = max(abs(low), abs(high))
        nearest = 0 if low <= 0 <= high else min(abs(low), abs(high))
        least = Fraction(self.squares, most) - Fraction(farthest, fewest) ** 2
        largest = Fraction(self.squares + more, fewest) - Fraction(nearest, most) ** 2
        unit = 1 << (2 * self.shift)
        return (
            root(least.numerator, least.denominator * unit),
            root(largest.numerator, largest.denominator * unit),
        )

    def dump(self) -> Plain:
        return [self.n, packed(self.total), self.shift, packed(self.squares)]

    def load(self, state: Plain) -> None:
        self.n, total, self.shift, squares = state
        self.total, self.squares = unpacked(total), unpacked(squares)
