"""Makes the rows of windows: a row has the cells of a query's aggregates over a set of events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from topology.base.native import mypyc_attr
from topology.base.operator import Plain
from topology.base.paths import Names as Path
from topology.queries.window.aggregates.built_in import (
    BUILT_IN,
    OF_CELL,
    RANKED,
    TIME_AVG,
    MakeCell,
    Usable,
)
from topology.queries.window.aggregates.cell import AggregateCell, AggregateFunction, Placed
from topology.queries.window.aggregates.custom import Custom, Function
from topology.queries.window.aggregates.sketch import Quantile
from topology.queries.window.aggregates.sums import Events
from topology.queries.window.aggregates.tally import Tally
from topology.queries.window.settings import Aggregate
from topology.state.saved import INT, ValueKind, record, row_of

Values = tuple[Any, ...]
"""The value that an event adds to each cell of a row, None for a cell that it does not change.

The values for `time_avg` follow.
"""
RowCells = tuple[AggregateCell, ...]

THE_ROW: Final = -1
"""The index used in place of a cell's index for functions that read the row itself."""


@mypyc_attr(acyclic=True)
class AggregateRow:
    """The number of `events` in a set, and the `cells` with their values.

    The order in which events are added and rows are merged does not matter.
    """

    __slots__ = ("cells", "events")

    def __init__(self, cells: RowCells, events: int = 0) -> None:
        self.cells = cells
        self.events = events

    def add(self, values: Values, event: Placed) -> None:
        self.events += 1
        for cell, value in zip(self.cells, values, strict=False):
            if value is not None:
                cell.add(value, event)

    def take(self, events: int, columns: list[list[Any]]) -> None:
        """Add `events` events and, for each cell, a column of values; all cells must be tallies."""
        self.events += events
        for i, values in enumerate(columns):
            if values:
                self.cells[i].take(values)

    def merge(self, other: AggregateRow) -> None:
        """Add the events of another row of the same query; that row does not change."""
        self.events += other.events
        for i, cell in enumerate(other.cells):
            self.cells[i].merge(cell)

    def copy(self) -> AggregateRow:
        return AggregateRow(tuple([cell.copy() for cell in self.cells]), self.events)


class CellPlan(NamedTuple):
    """A plan for one cell of each row: its constructor, its field, and which values it takes.

    `by` leads to a second field that ranks the values; None for most cells. `where` is the
    condition on the events whose values it takes, or "" for all events.
    """

    make: MakeCell
    path: Path
    usable: Usable
    by: Path | None = None
    where: str = ""


class Makers:
    """A factory for the rows of a query, which also computes the values of its aggregates.

    Attributes:
        failures: A list of one number: how many exceptions the cells of `Function`s have caught.
        cells: The plans of a row's cells, in order. Functions of one field may share a cell.
        parts: The function of each aggregate, and the index of its cell.
        is_tallied: Whether all cells are tallies; always False unless `plain` is set.
        timed: The field and the condition of each `time_avg`, whose values follow those of the
            cells (`empty`).
    """

    def __init__(
        self,
        outputs: Sequence[Aggregate],
        functions: Mapping[str, Function],
        *,
        plain: bool = True,
    ) -> None:
        self.failures = [0]
        self.cells: list[CellPlan] = []
        self.parts: list[tuple[AggregateFunction, int]] = []
        self.timed: list[tuple[Path, str]] = []
        for output in outputs:
            if output.function == TIME_AVG:
                timed = (output.path, output.where)
                self.timed += [timed] if timed not in self.timed else []
                continue
            if output.function in functions:
                own = functions[output.function]
                make: MakeCell | None = partial(Custom, own, self.failures)
                usable, function = _make_safe(own.usable), OF_CELL
            else:
                built_in = BUILT_IN[output.function]
                usable, make, function = built_in.usable, built_in.make, built_in.function
            if make is None and output.where:
                make, usable = Events, _one
            if make is None:
                self.parts.append((function, THE_ROW))
                continue
            if make is Quantile:
                make = partial(Quantile, output.quantile_ppm)
            by = output.by if output.function in RANKED else None
            plan = CellPlan(make, output.path, usable, by, output.where)
            if plan not in self.cells:
                self.cells.append(plan)
            self.parts.append((function, self.cells.index(plan)))
        self._makes = [plan.make for plan in self.cells]
        self.is_tallied = (
            plain
            and not self.timed
            and all(plan.make is Tally and not plan.where for plan in self.cells)
        )

    def fresh(self) -> RowCells:
        """Return the cells of an empty row."""
        return tuple([make() for make in self._makes])

    def row(self) -> AggregateRow:
        return AggregateRow(self.fresh())

    def make_row_of_one(self, values: Values, event: Placed) -> AggregateRow:
        row = self.row()
        row.add(values, event)
        return row

    def values(self, row: AggregateRow) -> list[Any]:
        """Return the value of each aggregate for the row."""
        cells = row.cells
        return [
            function.value(row if place == THE_ROW else cells[place])
            for function, place in self.parts
        ]

    def is_sure(self, row: AggregateRow) -> bool:
        """Return whether the values are certain if the row's events are certainly in the window."""
        return self.is_tallied or all(
            function.is_sure(cell_in(row, place)) for function, place in self.parts
        )


def cell_in(row: AggregateRow, place: int) -> Any:
    """Return the cell that a function reads, by its index, or the row itself for `THE_ROW`."""
    return row if place == THE_ROW else row.cells[place]


class CellsKind(ValueKind):
    """The stored form of the cells that the `makers` make."""

    def __init__(self, makers: Makers) -> None:
        shapes = [cell.SHAPE for cell in makers.fresh()]
        super().__init__("cells", is_plain=False, kinds=shapes)
        self._makers = makers

    def dump(self, value: RowCells) -> Plain:
        return [cell.dump() for cell in value]

    def load(self, plain: Plain, owner: Any, field: str) -> Any:
        cells = self._makers.fresh()
        for cell, state in zip(cells, row_of(plain, self, len(cells)), strict=True):
            cell.load(state)
        return cells


def row_kind(makers: Makers) -> ValueKind:
    """Return the stored form of the rows that the makers make."""
    return record(AggregateRow, cells=CellsKind(makers), events=INT)


def _one(_: Any) -> int:
    return 1


def _make_safe(usable: Usable) -> Usable:
    """Return a function that returns None where `usable` raises."""

    def attempt(value: Any) -> Any:
        try:
            return usable(value)
        except Exception:  # noqa: BLE001
            return None

    return attempt
