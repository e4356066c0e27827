"""The aggregates that a query may name: one row each, and no other list of them.

A new one is a class of the contract (`cell`) and a row here. From the row the file's reader knows
how it is spelled, the window what it takes from an event, and the laws what to try.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from topology.query.numbers import distinguished, number, scalar
from topology.window.aggregates.cell import AggregateCell
from topology.window.aggregates.extremes import Distinct, First, Largest, Last, Least
from topology.window.aggregates.sketch import Quantile
from topology.window.aggregates.sums import Average, Count, Deviation, Sum

Usable = Callable[[Any], Any]
"""Makes a value of what the payload holds; None of what is to be left out."""


class BuiltIn(NamedTuple):
    """`example` is its spelling, with as many arguments as it takes. `usable`: None where it
    needs no value of the payload. `make` gives an empty cell; of `quantile`, given the share."""

    make: Callable[..., AggregateCell]
    example: str
    usable: Usable | None

    @property
    def arguments(self) -> int:
        return 0 if self.example.endswith("()") else self.example.count(",") + 1


BUILT_IN: Final[Mapping[str, BuiltIn]] = {
    "count": BuiltIn(Count, "count()", None),
    "sum": BuiltIn(Sum, "sum(payload.v)", number),
    "avg": BuiltIn(Average, "avg(payload.v)", number),
    "min": BuiltIn(Least, "min(payload.v)", number),
    "max": BuiltIn(Largest, "max(payload.v)", number),
    "stddev": BuiltIn(Deviation, "stddev(payload.v)", number),
    "quantile": BuiltIn(Quantile, "quantile(payload.v, 0.99)", number),
    "distinct": BuiltIn(Distinct, "distinct(payload.v)", distinguished),
    "first": BuiltIn(First, "first(payload.v)", scalar),
    "last": BuiltIn(Last, "last(payload.v)", scalar),
}
