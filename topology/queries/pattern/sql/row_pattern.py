"""Answers questions about a row pattern of SQL before it is translated, and merges nested counts.

The aliases of such a pattern are the variables of PATTERN. `topology.queries.pattern.sql.lowering`
turns it into components.
"""

from __future__ import annotations

from topology.queries.pattern.language.read_conditions import ONCE, Quant
from topology.queries.pattern.tree.defaults import count_fewest_events
from topology.queries.pattern.tree.syntax import (
    UNBOUNDED,
    AllOf,
    CountedNode,
    EventNode,
    Negation,
    Node,
    Seq,
)


def count_fewest_beside(row: Node, *, behind: bool) -> dict[str, int]:
    """Return for each variable the smallest number of rows in a match before one of its rows.

    With `behind`, count the rows after it instead.
    """
    found: dict[str, int] = {}
    _collect_beside(row, 0, behind, found)
    return found


def _collect_beside(row: Node | Negation, beside: int, behind: bool, found: dict[str, int]) -> None:
    if isinstance(row, EventNode):
        found[row.alias] = min(beside, found.get(row.alias, beside))
    for each in reversed(row.children) if behind else row.children:
        _collect_beside(each, beside, behind, found)
        if isinstance(row, Seq):
            beside += count_fewest_events(each)


def can_follow_another(row: Node | Negation, name: str, is_first: bool = True) -> bool:
    """Return whether a row of the variable may follow the first row of a match."""
    match row:
        case EventNode(alias=own):
            return own == name and not is_first
        case CountedNode():
            is_first = is_first and row.maximum == 1
        case AllOf(rows):
            is_first = is_first and len(rows) == 1
    return any(
        can_follow_another(each, name, is_first and not (number and isinstance(row, Seq)))
        for number, each in enumerate(row.children)
    )


def times(outer: Quant, inner: Quant) -> Quant | None:
    """Return `(A inner) outer` as one count of A, or None if no single count is equivalent."""
    if ONCE in (outer, inner):
        return inner if outer == ONCE else outer
    if outer.reluctant != inner.reluctant:
        return None
    if outer[:2] == (0, 1) and inner.minimum <= 1:
        return inner._replace(minimum=0)
    endless = inner.maximum == UNBOUNDED and outer.maximum == UNBOUNDED
    if endless and inner.minimum <= 1 and outer.minimum <= 1:
        return inner._replace(minimum=min(inner.minimum, outer.minimum))
    return None
