"""What a query means where it says nothing.

USING skip_till_next; MATCHES MAXIMAL for skip_till_any, else ONE; EMIT FINAL where a negation
can end the pattern (until the window is over nobody knows), else EAGER; UNCERTAIN IGNORE for
AS SETS, which grades nothing; the rest are the defaults of syntax.Query.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from topology.pattern.tree.syntax import (
    AnyOf,
    CountedNode,
    EventNode,
    Negation,
    Node,
    Seq,
)


def ends_in_negation(node: Node | Negation) -> bool:
    """Whether a match can end in a gap in which nothing may happen."""
    match node:
        case Negation():
            return True
        case Seq():
            for each in reversed(node.children):
                if ends_in_negation(each):
                    return True
                if not can_be_absent(each):
                    return False
            return False
    return any(map(ends_in_negation, node.children))


def can_be_absent(node: Node | Negation) -> bool:
    """Whether a match may hold no event of it."""
    return fewest_events(node) == 0


def fewest_events(node: Node | Negation) -> int:
    """How many events of it a match holds at least."""
    match node:
        case EventNode(minimum=minimum):
            return minimum
        case AnyOf(nodes=nodes):
            return min(map(fewest_events, nodes))
        case CountedNode(node=turn, minimum=minimum):
            return fewest_events(turn) * minimum
    return sum(map(fewest_events, node.children))


def with_defaults(said: Mapping[str, Any], node: Node) -> dict[str, Any]:
    """The options that were said, and those that depend on the rest, as fields of a Query."""
    return {
        "matches": "maximal" if said.get("strategy") == "any" else "one",
        "emit": "final" if ends_in_negation(node) else "eager",
        "uncertain": "ignore" if said.get("sets") else "nominal",
        **said,
    }
