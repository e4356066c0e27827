"""The aggregates that a query may name: one row each, and no other list of them.

A new one is a cell and a function of the contract (`cell`) and a row here. From the row the file's
reader knows how it is spelled, the window what it takes from an event, a view of SQL the type of
its column, and the laws what to try.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, NamedTuple

from topology.query.numbers import distinguished, number, scalar
from topology.window.aggregates.cell import AggregateCell, AggregateFunction
from topology.window.aggregates.scalars import Distinct, First, Last
from topology.window.aggregates.sketch import Quantile
from topology.window.aggregates.sums import Average, Count, Deviation, Largest, Least, Sum
from topology.window.aggregates.tally import Squares, Tally

Usable = Callable[[Any], Any]
"""Makes a value of what the payload holds; None of what is to be left out."""

MakeCell = Callable[..., AggregateCell]

Result = Literal["whole", "real", "number", "value"]
"""A whole number, a real one, a number of the values' own type, or one of the values."""


class BuiltIn(NamedTuple):
    """An aggregate, by its name in `BUILT_IN`.

    Attributes:
        example: Its spelling, with as many arguments as it takes.
        result: The type of its result.
        usable: Says which values of the payload are added.
        make: Makes an empty cell; of `quantile`, given the share. Where it is None the function
            reads no value: it is made of the row.
        function: Makes the result of a cell.
    """

    example: str
    result: Result
    usable: Usable
    make: MakeCell | None
    function: AggregateFunction

    @property
    def arguments(self) -> int:
        return 0 if self.example.endswith("()") else self.example.count(",") + 1


OF_CELL: Final = AggregateFunction()

BUILT_IN: Final[Mapping[str, BuiltIn]] = {
    "count": BuiltIn("count()", "whole", number, None, Count()),
    "sum": BuiltIn("sum(payload.v)", "number", number, Tally, Sum()),
    "avg": BuiltIn("avg(payload.v)", "real", number, Tally, Average()),
    "min": BuiltIn("min(payload.v)", "number", number, Tally, Least()),
    "max": BuiltIn("max(payload.v)", "number", number, Tally, Largest()),
    "stddev": BuiltIn("stddev(payload.v)", "real", number, Squares, Deviation()),
    "quantile": BuiltIn("quantile(payload.v, 0.99)", "real", number, Quantile, OF_CELL),
    "distinct": BuiltIn("distinct(payload.v)", "whole", distinguished, Distinct, OF_CELL),
    "first": BuiltIn("first(payload.v)", "value", scalar, First, OF_CELL),
    "last": BuiltIn("last(payload.v)", "value", scalar, Last, OF_CELL),
}
