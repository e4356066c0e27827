"""Computes count, sum, avg, stddev, min and max; all but count read a tally.

Without values all but `count` are None: 0 would look like a measured sum. `stddev` is the standard
deviation of the population.

If each possible group of events may belong to the window or not, the bounds are computed as
follows:

* count and sum: each group adds its size or nothing.
* avg: starting from the certain events, the groups with the largest (smallest) mean are added
  while they raise (lower) the average. No other choice gives a more extreme average.
* stddev: the extremes of each sum are computed separately, so the bounds may be too wide.
* min and max: one bound is over the certain events alone, the other over all possible events.

Cost: one exact addition per value (`topology.queries.window.aggregates.tally`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from topology.answer.query.numbers import (
    WEIGHT_BITS,
    WHOLE_WEIGHT,
    divide,
    root_of_quotient,
    to_json_number,
)
from topology.queries.window.aggregates.cell import (
    AggregateCell,
    AggregateFunction,
    Bounds,
    Placed,
    merge_cells,
)
from topology.queries.window.aggregates.tally import Squares, Tally
from topology.state.saved import INT, Shape


class Additive(AggregateFunction):
    """A function whose value is a sum of one amount per event."""

    __slots__ = ()

    weighs = True
    additive = True

    def bounds(self, cell: Any, possibles: Sequence[Any]) -> Bounds:
        return self.bounds_from_amounts(
            cell, possibles, *find_free_spread(self.amounts_of(cell, possibles))
        )


class Events(AggregateCell):
    """The number of events that meet a condition, which `Count` reads as it reads a row."""

    SHAPE = Shape("window.events", 1, events=INT)
    __slots__ = ("events",)

    def __init__(self) -> None:
        self.events = 0

    def add(self, value: Any, event: Placed) -> None:
        self.events += 1

    def merge(self, other: Any) -> None:
        self.events += other.events


class Count(Additive):
    """The number of events, read from the row itself."""

    __slots__ = ()

    def value(self, cell: Any) -> Any:
        return cell.events

    def is_sure(self, cell: Any) -> bool:
        return True

    def weight(self, cell: Any, possibles: Sequence[tuple[Any, int]]) -> Any:
        total = cell.events * WHOLE_WEIGHT + sum(one.events * weight for one, weight in possibles)
        return number_of(total, 0, WEIGHT_BITS)

    def amounts_of(self, cell: Any, possibles: Sequence[Any]) -> list[int]:
        return [one.events for one in possibles]

    def bounds_from_amounts(
        self, cell: Any, possibles: Sequence[Any], low: int, high: int
    ) -> Bounds:
        return cell.events + low, cell.events + high


class Sum(Additive):
    """The sum of the values, an integer if all values are integers."""

    __slots__ = ()

    def value(self, cell: Tally) -> Any:
        if not cell.n:
            return None
        return divide(cell.total, 1 << cell.shift) if cell.shift else to_json_number(cell.total)

    def weight(self, cell: Tally, possibles: Sequence[tuple[Any, int]]) -> Any:
        n, total, shift = sum_weighted(cell, possibles)
        return number_of(total, shift, WEIGHT_BITS) if n else None

    def amounts_of(self, cell: Tally, possibles: Sequence[Any]) -> list[int]:
        return totals_of(possibles, find_finest_shift(cell, possibles))

    def bounds_from_amounts(
        self, cell: Tally, possibles: Sequence[Any], low: int, high: int
    ) -> Bounds:
        if not cell.n and not any(one.n for one in possibles):
            return None, None
        shift = find_finest_shift(cell, possibles)
        total = cell.total << (shift - cell.shift)
        return number_of(total + low, shift), number_of(total + high, shift)


class Average(AggregateFunction):
    """The arithmetic mean of the values."""

    __slots__ = ()

    weighs = True

    def value(self, cell: Tally) -> Any:
        return divide(cell.total, cell.n << cell.shift) if cell.n else None

    def weight(self, cell: Tally, possibles: Sequence[tuple[Any, int]]) -> Any:
        n, total, shift = sum_weighted(cell, possibles)
        return divide(total, n << shift) if n else None

    def bounds(self, cell: Tally, possibles: Sequence[Any]) -> Bounds:
        shift = find_finest_shift(cell, possibles)
        sizes = totals_of(possibles, shift)
        groups = [(size, one.n) for size, one in zip(sizes, possibles, strict=True) if one.n]
        groups.sort(key=lambda group: Fraction(*group))
        return _find_farthest_mean(cell, groups, shift, 1), _find_farthest_mean(
            cell, groups[::-1], shift, -1
        )


def _find_farthest_mean(
    cell: Tally, groups: Sequence[tuple[int, int]], shift: int, sign: int
) -> Any:
    """Return the mean after adding groups while they lower it (sign 1) or raise it (sign -1)."""
    total, n = cell.total << (shift - cell.shift), cell.n
    for part, size in groups:
        if n and sign * (part * n - total * size) >= 0:
            break
        total += part
        n += size
    return divide(total, n << shift) if n else None


class Deviation(AggregateFunction):
    """The standard deviation of the population."""

    __slots__ = ()

    weighs = True

    def value(self, cell: Squares) -> Any:
        return compute_deviation(cell.n, cell.total, cell.squares, cell.shift)

    def weight(self, cell: Squares, possibles: Sequence[tuple[Any, int]]) -> Any:
        n, total, shift = sum_weighted(cell, possibles)
        squares = sum(
            (one.squares * weight) << (2 * (shift - one.shift))
            for one, weight in ((cell, WHOLE_WEIGHT), *possibles)
        )
        return compute_deviation(n, total, squares, shift)

    def bounds(self, cell: Squares, possibles: Sequence[Any]) -> Bounds:
        possibles = [one for one in possibles if one.n]
        if not possibles:
            value = self.value(cell)
            return value, value
        shift = find_finest_shift(cell, possibles)
        low, high = (
            totals_of([cell], shift)[0] + part
            for part in find_free_spread(totals_of(possibles, shift))
        )
        squares = cell.squares << (2 * (shift - cell.shift))
        more = sum(one.squares << (2 * (shift - one.shift)) for one in possibles)
        fewest = max(1, cell.n)
        most = max(1, cell.n + sum(one.n for one in possibles))
        farthest = max(abs(low), abs(high))
        nearest = 0 if low <= 0 <= high else min(abs(low), abs(high))
        least = Fraction(squares, most) - Fraction(farthest, fewest) ** 2
        largest = Fraction(squares + more, fewest) - Fraction(nearest, most) ** 2
        unit = 1 << (2 * shift)
        return (
            root_of_quotient(least.numerator, least.denominator * unit),
            root_of_quotient(largest.numerator, largest.denominator * unit),
        )


class Least(AggregateFunction):
    """The smallest value (`min`)."""

    __slots__ = ()

    def value(self, cell: Tally) -> Any:
        return to_json_number(cell.least)

    def bounds(self, cell: Tally, possibles: Sequence[Any]) -> Bounds:
        return self.find_extremes(cell, possibles, max)

    def find_extremes(
        self, cell: Tally, possibles: Sequence[Any], innermost: Callable[..., Any]
    ) -> Bounds:
        """Return the value over certain and possible events, and that over certain events alone.

        If there are no certain values, the second one is the `innermost` of the values of the
        possible cells.
        """
        inner = self.value(cell)
        if not cell.n:
            inner = innermost([self.value(one) for one in possibles if one.n], default=None)
        return self.value(merge_cells(cell, possibles)), inner


class Largest(Least):
    """The largest value (`max`)."""

    __slots__ = ()

    def value(self, cell: Tally) -> Any:
        return to_json_number(cell.largest)

    def bounds(self, cell: Tally, possibles: Sequence[Any]) -> Bounds:
        return self.find_extremes(cell, possibles, min)[::-1]


def number_of(total: int, shift: int, bits: int = 0) -> Any:
    """Return total * 2^-(shift + bits) as a number: an integer if it is whole and `shift` is 0."""
    whole, rest = divmod(total, 1 << (shift + bits))
    return divide(total, 1 << (shift + bits)) if rest or shift else to_json_number(whole)


def find_finest_shift(cell: Tally, possibles: Sequence[Any]) -> int:
    shifts: list[int] = [one.shift for one in (cell, *possibles)]
    return max(shifts)


def totals_of(cells: Sequence[Any], shift: int) -> list[int]:
    return [one.total << (shift - one.shift) for one in cells]


def find_free_spread(sizes: Sequence[int]) -> tuple[int, int]:
    """Return the smallest and the largest sum of any subset of the sizes."""
    return sum(size for size in sizes if size < 0), sum(size for size in sizes if size > 0)


def sum_weighted(cell: Tally, possibles: Sequence[tuple[Any, int]]) -> tuple[int, int, int]:
    """Return the weighted number of values, their weighted total, and the shift of that total.

    The number is in units of 1 / WHOLE_WEIGHT, the total in units of 2^-shift / WHOLE_WEIGHT.
    """
    shift = find_finest_shift(cell, [one for one, _ in possibles])
    n, total = cell.n * WHOLE_WEIGHT, (cell.total * WHOLE_WEIGHT) << (shift - cell.shift)
    for one, weight in possibles:
        n += one.n * weight
        total += (one.total * weight) << (shift - one.shift)
    return n, total, shift


def compute_deviation(n: int, total: int, squares: int, shift: int) -> Any:
    """Return the standard deviation from the number, sum and square sum; None without values."""
    return root_of_quotient(n * squares - total * total, (n * n) << (2 * shift)) if n else None
