"""The aggregates that a query may name: one row each, and no other list of them.

A new one is a cell and a function of the contract (`cell`) and a row here. From the row the file's
reader knows how it is spelled, the window what it takes from an event, and the laws what to try.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from topology.query.numbers import distinguished, number, scalar
from topology.window.aggregates.cell import AggregateCell, AggregateFunction
from topology.window.aggregates.extremes import Distinct, First, Last
from topology.window.aggregates.sketch import Quantile
from topology.window.aggregates.sums import Average, Count, Deviation, Largest, Least, Sum
from topology.window.aggregates.tally import Squares, Tally

Usable = Callable[[Any], Any]
"""Makes a value of what the payload holds; None of what is to be left out."""

MakeCell = Callable[..., AggregateCell]


class BuiltIn(NamedTuple):
    """`example` is its spelling, with as many arguments as it takes. `usable`: which values of the
    payload are added. `make` gives an empty cell; of `quantile`, given the share. Where it is None
    the function reads no value: it is made of the row."""

    example: str
    usable: Usable
    make: MakeCell | None
    function: AggregateFunction

    @property
    def arguments(self) -> int:
        return 0 if self.example.endswith("()") else self.example.count(",") + 1


OF_CELL: Final = AggregateFunction()

BUILT_IN: Final[Mapping[str, BuiltIn]] = {
    "count": BuiltIn("count()", number, None, Count()),
    "sum": BuiltIn("sum(payload.v)", number, Tally, Sum()),
    "avg": BuiltIn("avg(payload.v)", number, Tally, Average()),
    "min": BuiltIn("min(payload.v)", number, Tally, Least()),
    "max": BuiltIn("max(payload.v)", number, Tally, Largest()),
    "stddev": BuiltIn("stddev(payload.v)", number, Squares, Deviation()),
    "quantile": BuiltIn("quantile(payload.v, 0.99)", number, Quantile, OF_CELL),
    "distinct": BuiltIn("distinct(payload.v)", distinguished, Distinct, OF_CELL),
    "first": BuiltIn("first(payload.v)", scalar, First, OF_CELL),
    "last": BuiltIn("last(payload.v)", scalar, Last, OF_CELL),
}
