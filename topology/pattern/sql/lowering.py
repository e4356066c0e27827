"""A row pattern as a pattern of the language: components in a row, with MATCHES BEST.

A variable that is written in several places, or whose group is repeated, has a component for each;
the events of all of them bear the variable's name. `X{0,2} R`, where X is a group, is
`X (X R | R) | R`: so the choices have the order of a backtracking regular expression, which MATCHES
BEST takes the least of. A group without an upper bound cannot be written out, and is refused.

Bound: MAX_COPIES components, before the language's own bounds are asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
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
    EventNode,
    Item,
    Negation,
    Node,
    Seq,
    Span,
)

MAX_COPIES: Final = 400


class TooManyCopies(Exception):
    """More than MAX_COPIES components."""


class RowLowering:
    """The tree of one query. `copies`: the aliases of each variable's components."""

    def __init__(self, names: Sequence[str], findings: Findings) -> None:
        self.copies: dict[str, list[str]] = {name: [] for name in names}
        self._findings = findings
        self._taken = set(names)
        self._count = 0

    def node(self, row: RowPattern, span: Span) -> Node:
        try:
            return _in_a_row(self._row([row]))
        except TooManyCopies:
            message = f"written out, the pattern has more than {MAX_COPIES} variables"
            self._findings.add("E_TOO_LARGE", span, message, "write smaller counts")
            return EventNode((), "")

    def _row(self, rows: Sequence[RowPattern]) -> list[Node]:
        """The nodes of a sequence, which is all there is up to the end of its group."""
        found: list[Node] = []
        left = list(rows)
        while left:
            row = left.pop(0)
            match row:
                case RowVariable():
                    found.append(self._component(row, ONCE))
                case RowSequence(inner):
                    left[:0] = inner
                case EitherRows(inner):
                    found.append(AnyOf(tuple(_in_a_row(self._row([each])) for each in inner)))
                case PermutedRows(inner):
                    found.append(self._permuted(inner))
                case CountedRows(inner, count, span):
                    single, count = _flat(inner, count)
                    if isinstance(single, RowVariable):
                        found.append(self._component(single, count))
                    elif count.maximum == UNBOUNDED:
                        self._endless(span)
                    elif count.minimum > MAX_COPIES:
                        raise TooManyCopies
                    elif count.minimum:
                        fewer = Quantifier(0, count.maximum - count.minimum, count.reluctant)
                        more = [CountedRows(single, fewer, span)] if fewer.maximum else []
                        left[:0] = [*[single] * count.minimum, *more]
                    else:
                        return self._optional(found, single, count, span, left)
        return found

    def _optional(
        self,
        before: list[Node],
        row: RowPattern,
        count: Quantifier,
        span: Span,
        rest: Sequence[RowPattern],
    ) -> list[Node]:
        """`before row{0,n} rest`."""
        fewer = Quantifier(0, count.maximum - 1, count.reluctant)
        more = [CountedRows(row, fewer, span)] if fewer.maximum else []
        if not rest and (not before or any(map(_has_choice, before))):
            message = "an optional group at the end of its parentheses, behind what leaves a choice"
            hint = "write a query for each, or a variable with ? in its place"
            self._findings.add("E_QUANT", span, message, hint)
            return before
        if not rest:  # what is before leaves no choice, so it may be chosen first
            present = [*before, *self._row([row, *more])]
            absent: list[Node] = [self._again(each) for each in before]
            return [_chosen(present, absent, count)]
        return [*before, _chosen(self._row([row, *more, *rest]), self._row(rest), count)]

    def _endless(self, span: Span) -> None:
        message = "a group of several rows without an upper bound"
        self._findings.add("E_QUANT", span, message, "give it one, like (A B){1,4}")

    def _permuted(self, rows: Sequence[RowPattern]) -> Node:
        if all(isinstance(each, RowVariable) for each in rows) and len(rows) > 1:
            return AllOf(tuple(_in_a_row(self._row([each])) for each in rows))
        orders = permutations(rows)
        found = tuple(_in_a_row(self._row(order)) for order in orders)
        return AnyOf(found) if len(found) > 1 else found[0]

    def _component(self, variable: RowVariable, count: Quantifier) -> EventNode:
        self._count += 1
        if self._count > MAX_COPIES:
            raise TooManyCopies
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
        )

    def _again(self, node: Node) -> Node:
        """Another copy of components in a row."""
        if isinstance(node, EventNode):
            count = Quantifier(node.minimum, node.maximum, node.reluctant)
            return self._component(RowVariable(node.label, node.span), count)
        return node.rebuilt([self._again(each) for each in node.children])  # type: ignore[arg-type]


def _flat(row: RowPattern, count: Quantifier) -> tuple[RowPattern, Quantifier]:
    """`(A+)?` is `A*`."""
    while isinstance(row, CountedRows):
        both = times(count, row.count)
        if both is None:
            break
        row, count = row.row, both
    return row, count


def _chosen(present: Sequence[Node], absent: Sequence[Node], count: Quantifier) -> Node:
    branches = (_in_a_row(present), _in_a_row(absent))
    return AnyOf(branches[::-1] if count.reluctant else branches)


def _in_a_row(nodes: Sequence[Node]) -> Node:
    if len(nodes) == 1:
        return nodes[0]
    return Seq(tuple(map(Item, nodes)))


def _has_choice(node: Node | Negation) -> bool:
    if isinstance(node, EventNode):
        return node.minimum != node.maximum
    return not isinstance(node, Seq) or any(map(_has_choice, node.children))
