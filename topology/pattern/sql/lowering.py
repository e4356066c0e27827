"""A row pattern as a pattern of the language: components in a row, with MATCHES BEST.

A variable that is written in several places has a component for each; the events of all of them
bear the variable's name. A count of several rows is one of a group, and needs an upper bound.

Bound: MAX_PLACES components, before the language's own bounds are asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from math import factorial
from typing import Final

from topology.pattern.sql.row_pattern import (
    ONCE,
    CountedRows,
    EitherRows,
    PermutedRows,
    Quantifier,
    RowPattern,
    RowSequence,
    RowVariable,
    times,
)
from topology.pattern.tree.errors import Findings
from topology.pattern.tree.syntax import (
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
    """More than MAX_PLACES components."""


class RowLowering:
    """The tree of one query. `copies`: the aliases of each variable's components."""

    def __init__(self, names: Sequence[str], findings: Findings) -> None:
        self.copies: dict[str, list[str]] = {name: [] for name in names}
        self._findings = findings
        self._taken = set(names)
        self._count = 0

    def node(self, row: RowPattern, span: Span) -> Node:
        try:
            return self._node(row)
        except TooManyPlaces:
            message = f"the pattern has more than {MAX_PLACES} places for variables"
            self._findings.add("E_TOO_LARGE", span, message, "shorten it")
            return EventNode((), "")

    def _node(self, row: RowPattern) -> Node:
        match row:
            case RowVariable():
                return self._component(row, ONCE)
            case RowSequence(rows):
                return self._in_a_row(rows)
            case EitherRows(rows):
                return AnyOf(tuple(map(self._node, rows)))
            case PermutedRows(rows):
                return self._permuted(rows)
            case CountedRows(inner, count, span):
                single, count = _flat(inner, count)
                if isinstance(single, RowVariable):
                    return self._component(single, count)
                return self._counted(single, count, span)

    def _in_a_row(self, rows: Sequence[RowPattern]) -> Node:
        items = [Item(self._node(row)) for row in rows]
        return Seq(tuple(items)) if len(items) > 1 else items[0].node  # type: ignore[return-value]

    def _counted(self, row: RowPattern, count: Quantifier, span: Span) -> Node:
        if count.maximum == UNBOUNDED:
            message = "a group of several rows without an upper bound"
            self._findings.add("E_QUANT", span, message, "give it one, like (A B){1,4}")
        node = self._node(row)
        if count == ONCE:
            return node
        reluctant = count.reluctant
        return CountedNode(node, count.minimum, count.maximum, reluctant=reluctant, span=span)

    def _permuted(self, rows: Sequence[RowPattern]) -> Node:
        if all(isinstance(each, RowVariable) for each in rows) and len(rows) > 1:
            return AllOf(tuple(map(self._node, rows)))
        if factorial(len(rows)) > MAX_PLACES:
            raise TooManyPlaces
        found = tuple(map(self._in_a_row, permutations(rows)))
        return AnyOf(found) if len(found) > 1 else found[0]

    def _component(self, variable: RowVariable, count: Quantifier) -> EventNode:
        self._count += 1
        if self._count > MAX_PLACES:
            raise TooManyPlaces
        name = variable.name
        copies = self.copies[name]
        alias, number = name, len(copies) + 1
        while copies and alias in self._taken:
            alias, number = f"{name}#{number}", number + 1
        self._taken.add(alias)
        copies.append(alias)
        return EventNode(
            (),
            str(alias),
            count.minimum,
            count.maximum,
            reluctant=count.reluctant,
            span=variable.span,
            label=str(name),
            hidden=variable.hidden,
        )


def _flat(row: RowPattern, count: Quantifier) -> tuple[RowPattern, Quantifier]:
    """`(A+)?` is `A*`."""
    while isinstance(row, CountedRows):
        both = times(count, row.count)
        if both is None:
            break
        row, count = row.row, both
    return row, count
