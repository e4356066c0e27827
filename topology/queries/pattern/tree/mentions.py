"""Lists how an expression uses events, with one `Mention` for each use.

A condition may depend on one element, its neighbours, a whole group, or the time of an event.
Callers find this in the mentions, so they need not know every kind of node.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from topology.queries.pattern.tree.syntax import (
    AggregateCall,
    At,
    Call,
    Each,
    Expr,
    Previous,
    Query,
    Ref,
    RowRef,
    Running,
    Same,
)
from topology.queries.pattern.tree.walk import find_expressions, walk

How = Literal["plain", "each", "at", "whole", "before", "running", "previous", "all"]
"""The ways in which an expression uses an event.

- plain: `a.x`; for a group, each of its elements
- each: `a[i+k].x`
- at: `a[k].x`
- whole: an aggregate over all elements
- before: an aggregate over the elements up to i-k
- running: a condition from SQL's DEFINE
- previous: `PREV(a.x)`
- all: `[x]`, which concerns all events

References to rows in SQL's MEASURES are not mentions. They name rows of the match, or rows around
it (`looks_back`, `looks_forward`).
"""

BY_ORDER: Final = frozenset({"each", "at", "before", "running"})
"""Uses that depend on the order of a group's elements."""

COUNTED: Final = frozenset({"each", "before"})
"""Uses that have a separate value for each index i of a group."""


@dataclass(frozen=True, slots=True)
class Mention:
    """One use of an event. `alias` is empty for `[x]`; `number` is the k of an index."""

    alias: str
    how: How
    path: tuple[str, ...] = ()
    number: int = 0


def find_called(query: Query) -> set[str]:
    """Return the names of the functions that the query calls."""
    parts = (part for expr in find_expressions(query) for part in walk(expr))
    return {part.function for part in parts if isinstance(part, Call)}


def find_mentions(expr: Expr) -> Iterator[Mention]:
    """Yield the mentions in an expression, in the order of the text."""
    for part in walk(expr):
        match part:
            case Ref(alias, path, None):
                yield Mention(alias, "plain", path)
            case Ref(alias, path, Each(offset)):
                yield Mention(alias, "each", path, offset)
            case Ref(alias, path, At(position)):
                yield Mention(alias, "at", path, position)
            case Previous(alias, path):
                yield Mention(alias, "previous", path)
            case AggregateCall(_, alias, path, None, others=others):
                yield from (Mention(each, "whole", path) for each in (alias, *others))
            case AggregateCall(_, alias, path, int(before)):
                yield Mention(alias, "before", path, before)
            case Running(alias, test):
                looked_at = [each.path for each in walk(test) if isinstance(each, RowRef)]
                yield from (Mention(alias, "running", path) for path in looked_at or [()])
            case Same(paths):
                yield from (Mention("", "all", path) for path in paths)


def find_aliases(expr: Expr) -> set[str]:
    """Return all aliases that the expression names."""
    return {mention.alias for mention in find_mentions(expr)} - {""}


def looks_at_time(expr: Expr) -> bool:
    return any(mention.path == ("time",) for mention in find_mentions(expr))


def looks_back(expr: Expr) -> bool:
    """Return whether the expression reads an earlier event that need not be in the match."""
    return any(
        isinstance(part, Previous) or (isinstance(part, RowRef) and part.beyond and part.shift < 0)
        for part in walk(expr)
    )


def looks_forward(expr: Expr) -> bool:
    """Return whether the expression reads a later event that need not be in the match."""
    return any(isinstance(part, RowRef) and part.beyond and part.shift > 0 for part in walk(expr))


def find_counted_aliases(expr: Expr) -> set[str]:
    """Return the aliases of the groups for which the expression uses the index i."""
    return {mention.alias for mention in find_mentions(expr) if mention.how in COUNTED}
