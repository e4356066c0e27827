"""How an expression looks at the events that it names, one `Mention` for each place.

Whoever asks what a condition depends on (an element alone, its neighbours, a group as a whole, the
time of an event) asks it of these, and need not know every kind of node.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from topology.pattern.tree.syntax import (
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
from topology.pattern.tree.walk import expressions, walk

How = Literal["plain", "each", "at", "whole", "before", "running", "previous", "all"]
"""`a.x`, of a group each of its elements; `a[i+k].x`; `a[k].x`; an aggregate over all; one up to
i-k; SQL's DEFINE; `PREV(a.x)`; `[x]`, which names all events. SQL's rows in RETURN are none of
these: they are of the match, or beyond it (`looks_back`, `looks_on`)."""

BY_ORDER: Final = frozenset({"each", "at", "before", "running"})
"""What depends on the order of a group's elements."""

COUNTED: Final = frozenset({"each", "before"})
"""One value for each i."""


@dataclass(frozen=True, slots=True)
class Mention:
    """`alias` is empty for `[x]`; `number` is the k of an index."""

    alias: str
    how: How
    path: tuple[str, ...] = ()
    number: int = 0


def called(query: Query) -> set[str]:
    """Return the names of the functions that the query calls."""
    parts = (part for expr in expressions(query) for part in walk(expr))
    return {part.function for part in parts if isinstance(part, Call)}


def mentions(expr: Expr) -> Iterator[Mention]:
    """In the order of the text."""
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


def aliases(expr: Expr) -> set[str]:
    """All that it names."""
    return {mention.alias for mention in mentions(expr)} - {""}


def looks_at_time(expr: Expr) -> bool:
    return any(mention.path == ("time",) for mention in mentions(expr))


def looks_back(expr: Expr) -> bool:
    """Does it ask for what lies before an event, be it a member or not?"""
    return any(
        isinstance(part, Previous) or (isinstance(part, RowRef) and part.beyond and part.shift < 0)
        for part in walk(expr)
    )


def looks_on(expr: Expr) -> bool:
    """Does it ask for what lies behind an event, be it a member or not?"""
    return any(isinstance(part, RowRef) and part.beyond and part.shift > 0 for part in walk(expr))


def counted_through(expr: Expr) -> set[str]:
    """The groups of which it has one value for each i."""
    return {mention.alias for mention in mentions(expr) if mention.how in COUNTED}
