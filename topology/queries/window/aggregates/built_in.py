"""Lists the built-in aggregates that a query may use, in one table.

To add an aggregate, write its cell and its function (`cell`), and add a row here. The parser of
topology files, the windows, the SQL views and the property tests all read this table. Some other
tests have their own lists (CONTRIBUTING).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, NamedTuple

from topology.answer.query.numbers import number, to_exact_scalar, to_scalar
from topology.queries.window.aggregates.by_rank import AtLargest, AtLeast
from topology.queries.window.aggregates.cell import AggregateCell, AggregateFunction
from topology.queries.window.aggregates.scalars import Distinct, First, Last
from topology.queries.window.aggregates.sketch import Quantile
from topology.queries.window.aggregates.sums import Average, Count, Deviation, Largest, Least, Sum
from topology.queries.window.aggregates.tally import Squares, Tally

Usable = Callable[[Any], Any]
"""A function from a payload value to the value to aggregate, or to None if it is left out."""

MakeCell = Callable[..., AggregateCell]

Result = Literal["whole", "real", "number", "value"]
"""The type of a result: an integer, a float, a number of the inputs' type, or one of the inputs."""


class BuiltIn(NamedTuple):
    """An aggregate that a query may use, listed under its name in `BUILT_IN`.

    Attributes:
        example: A call as in a topology file, with all its arguments.
        result: The type of its result.
        usable: The function that selects the payload values to aggregate.
        make: The constructor of an empty cell; that of `quantile` takes the share in ppm. None for
            `count`, which reads the row itself, and for `time_avg`.
        function: The function that computes the result from a cell.
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

TIME_AVG: Final = "time_avg"
"""The aggregate that has no cell, because it depends on earlier windows, too."""

BUILT_IN: Final[Mapping[str, BuiltIn]] = {
    "count": BuiltIn("count()", "whole", number, None, Count()),
    "sum": BuiltIn("sum(payload.v)", "number", number, Tally, Sum()),
    "avg": BuiltIn("avg(payload.v)", "real", number, Tally, Average()),
    "min": BuiltIn("min(payload.v)", "number", number, Tally, Least()),
    "max": BuiltIn("max(payload.v)", "number", number, Tally, Largest()),
    "stddev": BuiltIn("stddev(payload.v)", "real", number, Squares, Deviation()),
    "quantile": BuiltIn("quantile(payload.v, 0.99)", "real", number, Quantile, OF_CELL),
    "distinct": BuiltIn("distinct(payload.v)", "whole", to_exact_scalar, Distinct, OF_CELL),
    "first": BuiltIn("first(payload.v)", "value", to_scalar, First, OF_CELL),
    "last": BuiltIn("last(payload.v)", "value", to_scalar, Last, OF_CELL),
    "max_by": BuiltIn("max_by(payload.v, payload.w)", "value", to_scalar, AtLargest, OF_CELL),
    "min_by": BuiltIn("min_by(payload.v, payload.w)", "value", to_scalar, AtLeast, OF_CELL),
    TIME_AVG: BuiltIn("time_avg(payload.v)", "real", number, None, OF_CELL),
}

RANKED: Final = ("max_by", "min_by")
"""The aggregates whose second argument is a field, which ranks the rows."""
