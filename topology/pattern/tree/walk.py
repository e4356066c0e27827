"""Ways through a tree: its components, its conjuncts, all parts of an expression.

Nothing here recurses, so that a tree of any depth can be looked at before it is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from topology.pattern.tree.syntax import (
    NOWHERE,
    Aggregate,
    AllOf,
    And,
    AnyOf,
    Arithmetic,
    Between,
    Call,
    Compare,
    EventNode,
    Expr,
    In,
    IsNull,
    Like,
    Negation,
    Negative,
    Node,
    Not,
    Or,
    Query,
    Ref,
    Seq,
    Span,
    Test,
)

MAX_DEPTH: Final = 100
"""Of conditions in conditions, of patterns in patterns, and of the terms of one sum."""


def components(node: Node | Negation) -> Iterator[EventNode | Negation]:
    """In the order of the text."""
    waiting: list[Node | Negation] = [node]
    while waiting:
        each = waiting.pop()
        if isinstance(each, EventNode | Negation):
            yield each
        else:
            waiting.extend(reversed(parts(each)))


def parts(node: Node | Negation) -> tuple[Node | Negation, ...]:
    """The nodes right below."""
    match node:
        case Seq(items):
            return tuple(item.node for item in items)
        case AllOf(nodes) | AnyOf(nodes):
            return nodes
        case _:
            return ()


def operands(expr: Expr) -> tuple[Expr, ...]:
    """The expressions right below."""
    match expr:
        case Negative(operand) | Not(operand) | IsNull(operand) | Like(operand):
            return (operand,)
        case In(operand, values):
            return (operand, *values)
        case Arithmetic(_, left, right) | Compare(_, left, right):
            return (left, right)
        case Between(operand, low, high):
            return (operand, low, high)
        case Call(_, arguments):
            return arguments
        case And(below) | Or(below):
            return below
        case _:
            return ()


def walk(expr: Expr) -> Iterator[Expr]:
    """The expression and all that is in it, in the order of the text."""
    waiting = [expr]
    while waiting:
        each = waiting.pop()
        yield each
        waiting.extend(reversed(operands(each)))


def aliases(expr: Expr) -> set[str]:
    """All that it names."""
    named: set[str] = set()
    for each in walk(expr):
        if isinstance(each, Ref | Aggregate):
            named.add(each.alias)
        elif isinstance(each, Test):
            named.update(each.aliases)
    return named


def conjuncts(expr: Expr | None) -> tuple[Expr, ...]:
    """What must hold, each by itself."""
    found: list[Expr] = []
    waiting = [expr] if expr is not None else []
    while waiting:
        each = waiting.pop()
        if isinstance(each, And):
            waiting.extend(reversed(each.parts))
        else:
            found.append(each)
    return tuple(found)


def flat(kind: type[And] | type[Or], parts: Sequence[Expr], span: Span = NOWHERE) -> Expr:
    """All parts in one AND or OR, without another of its kind inside; one part is itself."""
    below: list[Expr] = []
    for part in parts:
        below.extend(operands(part) if isinstance(part, kind) else (part,))
    return kind(tuple(below), span) if len(below) > 1 else below[0]


def expressions(query: Query) -> Iterator[Expr]:
    """WHERE, every UNTIL, every column."""
    if query.where is not None:
        yield query.where
    for component in components(query.node):
        if isinstance(component, EventNode) and component.until is not None:
            yield component.until
    for column in query.columns or ():
        yield column.expr


def too_deep(query: Query) -> Expr | Node | Negation | None:
    """The first part that is nested deeper than MAX_DEPTH."""
    nodes: list[tuple[int, Node | Negation]] = [(1, query.node)]
    while nodes:
        depth, node = nodes.pop()
        if depth > MAX_DEPTH:
            return node
        nodes.extend((depth + 1, each) for each in parts(node))
    return next((deep for expr in expressions(query) if (deep := too_deep_in(expr))), None)


def too_deep_in(expr: Expr) -> Expr | None:
    below = [(1, expr)]
    while below:
        depth, each = below.pop()
        if depth > MAX_DEPTH:
            return each
        below.extend((depth + 1, operand) for operand in operands(each))
    return None
