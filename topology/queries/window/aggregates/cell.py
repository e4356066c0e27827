"""Defines the interface of aggregates: cells collect the values of a field, functions read cells.

A cell takes values one by one, and merges with another cell of its class. The order of additions
and merges never changes the result, so a late event is simply added. Functions of one field share a
cell if they can.

Some events may or may not belong to the window, because their times are uncertain. The argument
`possibles` has one cell for each such event, or for each group of events that belongs as a whole or
not at all. `bounds` returns the smallest and the largest value over all choices of these cells that
leave at least one event in the window. A bound that cannot be computed is None. A value that
overflows is None, and values may be rounded; the lower bound must still not exceed the upper.

If each possible cell has a probability, `weight` computes the expected value. If a function has
`weighs = False`, the value by corrected timestamps is used instead.

A function is `additive` if each event adds a fixed amount to the value, whatever other events are
in the window. For such functions, the events of one clock share its error, which narrows the bounds
(`topology.queries.window.unsure.shifts`). `within` converts the smallest and the largest sum into
bounds.

Values are JSON values. `json_number` and `quotient` of `topology.answer.query.numbers` return None
for a number that is too large.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from topology.state.saved import Saved

Bounds = tuple[Any, Any]


class Placed(Protocol):
    """The time and the coordinates of the event that a value comes from.

    `Event` and `UnsureEvent` have these attributes.
    """

    ref_time_ns: int
    error_ns: int
    source: str
    epoch: int
    seq: int


class AggregateCell(Saved):
    """The values of one field, in the form that one or several aggregates need.

    A cell implements `value`, `is_sure` and `bounds` only if it serves a single function.
    """

    __slots__ = ()

    def add(self, value: Any, event: Placed) -> None:
        """Add a value of `event`; some cells also use the event's time and source."""
        raise NotImplementedError

    def take(self, values: list[Any]) -> None:
        """Add one or more numbers; only tallies support this."""
        raise NotImplementedError

    def merge(self, other: Any) -> None:
        raise NotImplementedError

    def copy(self) -> AggregateCell:
        twin = type(self)()
        twin.merge(self)
        return twin

    def value(self) -> Any:
        raise NotImplementedError

    def is_sure(self) -> bool:
        """Return whether the value is certain if the cell's events are certainly in the window."""
        return True

    def bounds(self, possibles: Sequence[Any]) -> Bounds:
        value = self.value()
        return (None, None) if possibles else (value, value)


def merge_cells(one: Any, others: Iterable[Any]) -> Any:
    """Return a new cell, or a new row of cells, that merges `one` and all `others`."""
    together = one.copy()
    for other in others:
        together.merge(other)
    return together


class AggregateFunction:
    """A function that computes the value of an aggregate from a cell, by default `cell.value()`.

    It never changes the cell.
    """

    __slots__ = ()

    weighs = False
    additive = False

    def value(self, cell: Any) -> Any:
        return cell.value()

    def is_sure(self, cell: Any) -> bool:
        return bool(cell.is_sure())

    def bounds(self, cell: Any, possibles: Sequence[Any]) -> Bounds:
        bounds: Bounds = cell.bounds(possibles)
        return bounds

    def weight(self, cell: Any, possibles: Sequence[tuple[Any, int]]) -> Any:
        """Return the expected value; a possible cell's weight is in units of 1 / WHOLE_WEIGHT."""
        raise NotImplementedError

    def amounts_of(self, cell: Any, possibles: Sequence[Any]) -> list[int]:
        """Return the amounts that the possible cells would add, for `bounds_from_amounts`."""
        raise NotImplementedError

    def bounds_from_amounts(
        self, cell: Any, possibles: Sequence[Any], low: int, high: int
    ) -> Bounds:
        raise NotImplementedError
