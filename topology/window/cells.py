"""Rows of cells, one cell for each aggregate; and who makes the rows of a query."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from topology.model.kept import ValueKind, Written, row_of
from topology.model.operator import Plain
from topology.window.aggregates.built_in import BUILT_IN
from topology.window.aggregates.cell import AggregateCell, Placed
from topology.window.aggregates.custom import Custom, Function
from topology.window.reading import Values
from topology.window.row import AggregateRow
from topology.window.settings import Aggregate
from topology.window.tally import TallyPlan, is_tallied


class Cells(AggregateRow):
    """For any aggregates."""

    __slots__ = ("_cells",)

    def __init__(self, cells: list[Any]) -> None:
        self._cells = cells

    def add(self, values: Values, event: Placed) -> None:
        for cell, value in zip(self._cells, values, strict=True):
            if value is not None:
                cell.add(value, event)

    def merge(self, other: AggregateRow) -> None:
        assert isinstance(other, Cells)
        for cell, another in zip(self._cells, other._cells, strict=True):
            cell.merge(another)

    def copy(self) -> AggregateRow:
        return Cells(self.cells())

    def values(self) -> list[Any]:
        return [cell.value() for cell in self._cells]

    def is_sure(self) -> bool:
        return all(cell.is_sure() for cell in self._cells)

    def cells(self) -> list[Any]:
        return [cell.copy() for cell in self._cells]

    def dump(self) -> list[Plain]:
        return [cell.dump() for cell in self._cells]

    def load(self, states: Sequence[Plain]) -> None:
        for cell, state in zip(self._cells, states, strict=True):
            cell.load(state)


class Makers:
    """Makes empty rows. `failures[0]` counts what users' functions raised. `is_tallied`: its rows
    are tallies; never so if not `plain`."""

    def __init__(
        self,
        outputs: Sequence[Aggregate],
        functions: Mapping[str, Function],
        *,
        plain: bool = True,
    ) -> None:
        self.failures = [0]
        self._makers = [_maker(output, functions, self.failures) for output in outputs]
        self.is_tallied = plain and is_tallied(outputs)
        self._plan = TallyPlan(outputs if self.is_tallied else ())

    def row(self) -> AggregateRow:
        return self._plan.row() if self.is_tallied else Cells(self.cells())

    def cells(self) -> list[Any]:
        return [make() for make in self._makers]

    def cells_of_one(self, values: Values, event: Placed) -> list[Any]:
        """Cells that hold one event."""
        cells = self.cells()
        Cells(cells).add(values, event)
        return cells

    def row_of_one(self, values: Values, event: Placed) -> AggregateRow:
        row = self.row()
        row.add(values, event)
        return row


class RowKind(ValueKind):
    """The kind of rows that these makers make."""

    def __init__(self, makers: Makers) -> None:
        super().__init__("aggregates", is_plain=False)
        self._makers = makers

    def dump(self, value: AggregateRow) -> Plain:
        return value.dump()

    def load(self, plain: Plain, written: Written | None, owner: Any, field: str) -> AggregateRow:
        row = self._makers.row()
        row.load(row_of(plain, self))
        return row


def _maker(
    output: Aggregate, functions: Mapping[str, Function], failures: list[int]
) -> Callable[[], AggregateCell]:
    if output.function in functions:
        return partial(Custom, functions[output.function], failures)
    make = BUILT_IN[output.function].make
    return partial(make, output.quantile_ppm) if output.function == "quantile" else make
