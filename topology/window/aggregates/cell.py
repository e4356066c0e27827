"""Aggregates over some events: cells keep what is seen of one field, functions make values of them.

Every cell can be added to, and merged with another of its kind. The order never changes the result,
so a late event only adds. Functions of one field share a cell where they can. Where it is not sure
which events belong (`possibles`, one cell for each of them or for each group that belongs or not as
a whole), `bounds` are the smallest and the largest value over all choices that leave some event
(4.2); None where nothing can be said.

Where every choice has a weight, `weighted` is the value of the weighted sums; a function without it
(`weighs`) uses reference times alone. A function is `additive` if each event adds its size to the
value, whatever else is there: for those the choices can be narrowed by what is known about clocks
(`shifts`), and `within` makes bounds of the smallest and the largest sum.

A value is what JSON holds: `json_number` of `topology.query.numbers` makes None of a number that is
too large, and `quotient` divides."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from topology.model.operator import Plain

Bounds = tuple[Any, Any]


class Placed(Protocol):
    """The time and the origin of a value: an event, or what is kept of one of unsure time."""

    ref_time_ns: int
    error_ns: int
    source: str
    epoch: int
    seq: int


class AggregateCell:
    """The state of an aggregate, or of several. `value`, `is_sure` and `bounds` are of cells that
    serve one function alone."""

    __slots__ = ()

    def add(self, value: Any, event: Placed) -> None:
        """Add a value; `event` gives its time and source."""
        raise NotImplementedError

    def take(self, values: list[Any]) -> None:
        """Add numbers, at least one; only tallies can."""
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
        """Return whether the value is that of every world, if it is sure what belongs."""
        return True

    def bounds(self, possibles: Sequence[Any]) -> Bounds:
        value = self.value()
        return (None, None) if possibles else (value, value)

    def dump(self) -> Plain:
        raise NotImplementedError

    def load(self, state: Plain) -> None:
        raise NotImplementedError


def merged(one: Any, others: Iterable[Any]) -> Any:
    """Return a cell, or a row of cells, of what one and all others of its kind have."""
    together = one.copy()
    for other in others:
        together.merge(other)
    return together


class AggregateFunction:
    """A value that is made of a cell; by default it is what the cell says. No cell is changed."""

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

    def weighted(self, cell: Any, possibles: Sequence[tuple[Any, int]]) -> Any:
        """Return the value with weights, in units of 1 / WHOLE_WEIGHT."""
        raise NotImplementedError

    def sizes(self, cell: Any, possibles: Sequence[Any]) -> list[int]:
        """Return what each possible one adds, in the unit that `within` takes."""
        raise NotImplementedError

    def within(self, cell: Any, possibles: Sequence[Any], low: int, high: int) -> Bounds:
        raise NotImplementedError
