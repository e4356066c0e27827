"""Chooses the tactic of a query; `pattern.match.evaluation` describes the tactics."""

from __future__ import annotations

from collections.abc import Sequence

from topology.queries.pattern.match.evaluation import Tactic
from topology.queries.pattern.match.tactics.best import Best
from topology.queries.pattern.match.tactics.exhaustive import Enumeration, Exhaustive, Finder
from topology.queries.pattern.match.tactics.rules import RunRules
from topology.queries.pattern.match.tactics.slices import Slicing, can_slice
from topology.queries.pattern.match.tactics.walk import One


def tactic_for(layouts: Sequence[RunRules]) -> Tactic:
    """Return the cheapest tactic that is correct for the query, given all of its alternatives."""
    if layouts[0].matches == "one" and not layouts[0].by_end:
        return One(layouts)
    if layouts[0].matches == "best":
        return Best(layouts)
    finders: list[Finder] = [
        Slicing(layout) if can_slice(layout) else Exhaustive(layout) for layout in layouts
    ]
    return Enumeration(layouts, finders)
