"""Translates a row pattern of SQL into a pattern of the language, for use with MATCHES BEST.

A variable that is written in several places has a component for each place. The events of all of
these components have the variable's name as their label. A count of several rows becomes a count of
a group, which needs an upper bound.

Bound: MAX_PLACES components. The language's own bounds are checked later.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations
from math import factorial
from typing import Any, Final

from topology.queries.pattern.language.read_conditions import Quant
from topology.queries.pattern.sql.row_pattern import times
from topology.queries.pattern.tree.errors import Findings
from topology.queries.pattern.tree.syntax import (
    UNBOUNDED,
    AllOf,
    AnyOf,
    CountedNode,
    EventNode,
    Item,
    Node,
    Seq,
    Span,
)

MAX_PLACES: Final = 400


class TooManyPlaces(Exception):
    """The error that a pattern has more than MAX_PLACES components."""


class RowLowering:
    """A translator of one query's pattern. `copies` maps each variable to component aliases."""

    def __init__(self, names: Sequence[str], findings: Findings) -> None:
        self.copies: dict[str, list[str]] = {name: [] for name in names}
        self._findings = findings
        self._taken = set(names)
        self._count = 0

    def node(self, row: Node, span: Span) -> Node:
        try:
            return self._lower_node(row)
        except TooManyPlaces:
            message = f"the pattern has more than {MAX_PLACES} places for variables"
            self._findings.add("E_TOO_LARGE", span, message, "shorten it")
            return EventNode((), "")

    def _lower_node(self, row: Any) -> Node:
        if isinstance(row, CountedNode):
            row = _flatten(row)
        match row:
            case EventNode():
                return self._make_component(row)
            case AllOf(rows):
                return self._lower_permutation(rows)
            case CountedNode(maximum=maximum) if maximum == UNBOUNDED:
                message = "the count of a group of several rows needs an upper bound"
                self._findings.add("E_QUANT", row.span, message, "write one, like (A B){1,4}")
        lowered: Node = row.rebuilt([self._lower_node(each) for each in row.children])
        return lowered

    def _lower_permutation(self, rows: Sequence[Any]) -> Node:
        if len(rows) == 1:
            return self._lower_node(rows[0])
        if all(isinstance(each, EventNode) for each in rows):
            return AllOf(tuple(map(self._lower_node, rows)))
        if factorial(len(rows)) > MAX_PLACES:
            raise TooManyPlaces
        orders = [Seq(tuple(map(Item, order))) for order in permutations(rows)]
        return AnyOf(tuple(map(self._lower_node, orders)))

    def _make_component(self, variable: EventNode) -> EventNode:
        self._count += 1
        if self._count > MAX_PLACES:
            raise TooManyPlaces
        name = variable.alias
        copies = self.copies[name]
        alias, number = name, len(copies) + 1
        while copies and alias in self._taken:
            alias, number = f"{name}#{number}", number + 1
        self._taken.add(alias)
        copies.append(alias)
        return replace(variable, alias=alias, label=name)


def _flatten(counted: CountedNode) -> EventNode | CountedNode:
    """Return a node with nested counts merged into one where possible: `(A+)?` becomes `A*`."""
    row, count = counted.node, Quant.of(counted)
    while isinstance(row, CountedNode):
        both = times(count, Quant.of(row))
        if both is None:
            break
        row, count = row.node, both
    if isinstance(row, EventNode):
        return replace(row, **count._asdict())
    return replace(counted, node=row, **count._asdict())
