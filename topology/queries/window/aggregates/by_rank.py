"""Computes `max_by` and `min_by`: a value from the row in which another field is extreme.

If there are several such rows, the first counts, by corrected timestamp, source, epoch and number.
The result is certain if time errors allow no other row to be the first of them.

Possible rows change the result if their rank is at least as extreme as that of the certain ones.
Then the bounds are the smallest and the largest value that may result. They are None if these
values are not all numbers, or if no row is certain.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from topology.answer.query.numbers import number
from topology.queries.window.aggregates.cell import AggregateCell, Bounds, Placed
from topology.queries.window.aggregates.scalars import FIRST, First
from topology.state.saved import SCALAR, Shape


class AtLargest(AggregateCell):
    """The values of a field in the rows with the largest `rank`; `rows` has the first of them.

    A value to add is a pair of the value and its rank.
    """

    SHAPE = Shape("window.at_largest", 1, rank=SCALAR, rows=FIRST)
    __slots__ = ("rank", "rows")

    sign = 1

    def __init__(self) -> None:
        self.rank: Any = None
        self.rows = First()

    def add(self, value: Any, event: Placed) -> None:
        found, rank = value
        if self._admit(rank):
            self.rows.add(found, event)

    def merge(self, other: Any) -> None:
        if other.rank is not None and self._admit(other.rank):
            self.rows.merge(other.rows)

    def _admit(self, rank: Any) -> bool:
        """Return whether rows of this rank count; if they exceed the others, forget those."""
        if self.rank is None or (rank > self.rank if self.sign > 0 else rank < self.rank):
            self.rank = rank
            self.rows = First()
        return bool(rank == self.rank)

    def value(self) -> Any:
        return self.rows.value()

    def is_sure(self) -> bool:
        return self.rows.is_sure()

    def bounds(self, possibles: Sequence[Any]) -> Bounds:
        rivals = [cell for cell in possibles if cell.rank is not None and self._yields_to(cell)]
        if not all(cell.is_sure() for cell in (self, *rivals)):
            return None, None
        if not rivals:
            return self.value(), self.value()
        values = [cell.value() for cell in (self, *rivals)]
        if any(number(value) is None for value in values):
            return None, None
        return min(values), max(values)

    def _yields_to(self, other: Any) -> bool:
        """Return whether the rows of another cell, if they exist, may replace those of this one."""
        if self.rank is None:
            return True
        return bool(other.rank >= self.rank if self.sign > 0 else other.rank <= self.rank)


class AtLeast(AtLargest):
    """The values of a field in the rows with the smallest rank."""

    __slots__ = ()

    sign = -1
