"""Lists the aggregates that a query may name, with one row for each.

To add an aggregate, write a cell and a function (`cell`) and add a row here. The reader of topology
files, the windows, the SQL views and the property tests read this list. Only some tests have lists
of their own (CONTRIBUTING).
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
"""A function that returns the value to add for a value of the payload, or None to leave it out."""

MakeCell = Callable[..., AggregateCell]

Result = Literal["whole", "real", "number", "value"]
"""The type of a result: an integer, a real number, a number of the inputs' type, or an input."""


class BuiltIn(NamedTuple):
    """An aggregate that a query may name, listed under its name in `BUILT_IN`.

    Attributes:
        example: A call as users write it, with all its arguments.
        result: The type of its result.
        usable: Returns the value to add for a value of the payload, or None if that is left out.
        make: Makes an empty cell; for `quantile` it takes the share. It is None if the function
            needs no values and reads the row itself.
        function: Computes the result from a cell.
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
