"""Fills in the options that a query leaves out.

The default of USING is skip_till_next. MATCHES defaults to MAXIMAL for skip_till_any, else to ONE.
EMIT defaults to FINAL if the pattern can end in a negation, because the absence is certain only
when its time has passed. For other patterns it is EAGER. UNCERTAIN defaults to IGNORE for AS SETS,
whose matches are not graded, else to NOMINAL. All other options have the defaults of syntax.Query.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from topology.queries.pattern.tree.syntax import AnyOf, CountedNode, EventNode, Negation, Node, Seq


def ends_in_negation(node: Node | Negation) -> bool:
    """Return whether a match of the node can end in a negation."""
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
    """Return whether a match may contain no event of the node."""
    return count_fewest_events(node) == 0


def count_fewest_events(node: Node | Negation) -> int:
    """Return the smallest number of events of the node that a match may contain."""
    match node:
        case EventNode(minimum=minimum):
            return minimum
        case AnyOf(nodes=nodes):
            return min(map(count_fewest_events, nodes))
        case CountedNode(node=turn, minimum=minimum):
            return count_fewest_events(turn) * minimum
    return sum(map(count_fewest_events, node.children))


def with_defaults(said: Mapping[str, Any], node: Node) -> dict[str, Any]:
    """Return the options in `said`, with the defaults that depend on other options or the pattern.

    The keys of both mappings are fields of Query.
    """
    return {
        "matches": "maximal" if said.get("strategy") == "any" else "one",
        "emit": "final" if ends_in_negation(node) else "eager",
        "uncertain": "ignore" if said.get("sets") else "nominal",
        **said,
    }
