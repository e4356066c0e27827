"""The row of cells of one window: one for each aggregate of the query.

Proved by: tests/topology/window/test_cells.py
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from topology.model.operator import Plain
from topology.window.aggregates.built_in import BUILT_IN
from topology.window.aggregates.cell import AggregateCell, Placed
from topology.window.aggregates.custom import Custom, Function
from topology.window.config import Output
from topology.window.reading import Values

Cells = list[Any]


class Makers:
    """Makes empty rows. `failures[0]` counts what users' functions raised."""

    def __init__(self, outputs: Sequence[Output], functions: Mapping[str, Function]) -> None:
        self.failures = [0]
        self._makers = [_maker(output, functions, self.failures) for output in outputs]

    def row(self) -> Cells:
        return [make() for make in self._makers]

    def of_one(self, values: Values, event: Placed) -> Cells:
        cells = self.row()
        add(cells, values, event)
        return cells

    def load(self, states: Sequence[Plain]) -> Cells:
        cells = self.row()
        for cell, state in zip(cells, states, strict=True):
            cell.load(state)
        return cells


def _maker(
    output: Output, functions: Mapping[str, Function], failures: list[int]
) -> Callable[[], AggregateCell]:
    if output.function in functions:
        return partial(Custom, functions[output.function], failures)
    make = BUILT_IN[output.function].make
    return partial(make, output.quantile_ppm) if output.function == "quantile" else make


def add(cells: Cells, values: Values, event: Placed) -> None:
    for cell, value in zip(cells, values, strict=True):
        if value is not None:
            cell.add(value, event)


def merge(cells: Cells, others: Cells) -> None:
    for cell, other in zip(cells, others, strict=True):
        cell.merge(other)


def copied(cells: Cells) -> Cells:
    return [cell.copy() for cell in cells]


def dumped(cells: Cells) -> list[Plain]:
    return [cell.dump() for cell in cells]
