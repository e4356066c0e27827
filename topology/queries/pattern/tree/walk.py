"""Traverses a tree: its components, its conjuncts, and all parts of an expression.

Functions that only read a tree do not use recursion, so they can examine a tree of any depth before
it is refused. Functions that return a changed tree use recursion, and accept only trees that were
checked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from topology.queries.pattern.tree.syntax import (
    NOWHERE,
    And,
    Below,
    EventNode,
    Expr,
    Negation,
    Node,
    Or,
    Query,
    Span,
)

MAX_DEPTH: Final = 100
"""The maximum depth of conditions and patterns; each term of a sum adds a level."""


def walk(root: Below) -> Iterator[Below]:
    """Yield a node of an expression or a pattern, and all nodes below it, in text order."""
    waiting: list[Any] = [root]
    while waiting:
        each = waiting.pop()
        yield each
        waiting.extend(reversed(each.children))


def find_components(node: Node | Negation) -> Iterator[EventNode | Negation]:
    """Return the components of a pattern in the order of the text."""
    return (each for each in walk(node) if isinstance(each, EventNode | Negation))


def split_conjuncts(expr: Expr | None) -> tuple[Expr, ...]:
    """Return the conditions that AND joins in an expression, or none if there is no expression."""
    found: list[Expr] = []
    waiting = [expr] if expr is not None else []
    while waiting:
        each = waiting.pop()
        if isinstance(each, And):
            waiting.extend(reversed(each.parts))
        else:
            found.append(each)
    return tuple(found)


def flatten(kind: type[And] | type[Or], parts: Sequence[Expr], span: Span = NOWHERE) -> Expr:
    """Return the parts as one AND or OR, which contains no other node of the same kind.

    A single part is returned unchanged.
    """
    below: list[Expr] = []
    for part in parts:
        below.extend(part.children if isinstance(part, kind) else (part,))
    return kind(tuple(below), span=span) if len(below) > 1 else below[0]


def find_expressions(query: Query) -> Iterator[Expr]:
    """Yield all expressions of a query: WHERE, each UNTIL and each column."""
    if query.where is not None:
        yield query.where
    for component in find_components(query.node):
        if isinstance(component, EventNode) and component.until is not None:
            yield component.until
    for column in query.columns or ():
        yield column.expr


def find_too_deep(query: Query) -> Expr | Node | Negation | None:
    """Return the first part that is nested deeper than MAX_DEPTH, or None."""
    roots = (query.node, *find_expressions(query))
    return next((deep for root in roots if (deep := find_too_deep_in(root))), None)


def find_too_deep_in(root: Below) -> Below | None:
    below: list[tuple[int, Any]] = [(1, root)]
    while below:
        depth, each = below.pop()
        if depth > MAX_DEPTH:
            return each  # type: ignore[no-any-return]
        below.extend((depth + 1, part) for part in each.children)
    return None


def rewrite(expr: Expr, change: Callable[[Expr], Expr]) -> Expr:
    """Return the expression with `change` applied to every node, children first."""
    below = expr.children
    new = tuple(rewrite(each, change) for each in below)
    is_same = all(one is other for one, other in zip(new, below, strict=True))
    return change(expr if is_same else expr.rebuilt(new))


def rewrite_events(node: Any, change: Callable[[EventNode], EventNode]) -> Any:
    """Return the pattern with `change` applied to every event."""
    if isinstance(node, EventNode):
        return change(node)
    return node.rebuilt([rewrite_events(each, change) for each in node.children])
