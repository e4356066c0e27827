"""What the aggregates of a query have come to over some events: the row of one window.

There are two forms that say the same. `Cells` holds one cell for each aggregate and is the
definition. `Tally` is small and quick, and there for queries of sums and extremes alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from topology.model.operator import Plain
from topology.window.aggregates.cell import Placed
from topology.window.reading import Values


class AggregateRow:
    """The order in which events are added and rows are merged changes nothing. All lists are in the
    order of the query's aggregates."""

    __slots__ = ()

    def add(self, values: Values, event: Placed) -> None:
        """None in `values`: left out there."""
        raise NotImplementedError

    def take(self, events: int, columns: list[list[Any]]) -> None:
        """So many events, and the values of each field that is read; of tallies alone."""
        raise NotImplementedError

    def merge(self, other: AggregateRow) -> None:
        """`other` is of the same query; it stays as it is."""
        raise NotImplementedError

    def copy(self) -> AggregateRow:
        raise NotImplementedError

    def values(self) -> list[Any]:
        """The value of each aggregate."""
        raise NotImplementedError

    def is_sure(self) -> bool:
        """Whether these values are those of every world, if it is sure what belongs."""
        raise NotImplementedError

    def cells(self) -> list[Any]:
        """The same as cells (`aggregates.cell`), which the caller may change."""
        raise NotImplementedError

    def dump(self) -> list[Plain]:
        """The states of those cells."""
        raise NotImplementedError

    def load(self, states: Sequence[Plain]) -> None:
        """Into an empty row."""
        raise NotImplementedError
