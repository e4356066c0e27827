"""Fills in the options that a query leaves out.

USING is skip_till_next. MATCHES is MAXIMAL for skip_till_any, else ONE. EMIT is FINAL if the
pattern can end in a negation, since absence is certain only after the window; else it is EAGER.
UNCERTAIN is IGNORE for AS SETS, which grades nothing. All other options have the defaults of
syntax.Query.
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
    """Return whether a match can end in a gap in which nothing may happen."""
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
    """Return whether a match may have no event of the node."""
    return fewest_events(node) == 0


def fewest_events(node: Node | Negation) -> int:
    """Return the least number of events of the node in a match."""
    match node:
        case EventNode(minimum=minimum):
            return minimum
        case AnyOf(nodes=nodes):
            return min(map(fewest_events, nodes))
        case CountedNode(node=turn, minimum=minimum):
            return fewest_events(turn) * minimum
    return sum(map(fewest_events, node.children))


def with_defaults(said: Mapping[str, Any], node: Node) -> dict[str, Any]:
    """Return the given options, and the defaults that depend on these or on the pattern.

    They are fields of a Query.
    """
    return {
        "matches": "maximal" if said.get("strategy") == "any" else "one",
        "emit": "final" if ends_in_negation(node) else "eager",
        "uncertain": "ignore" if said.get("sets") else "nominal",
        **said,
    }
