"""Finds the matches of any alternative: for units of an end event, and for ALL from a start event.

MAXIMAL keeps, of all valid matches that end in the anchor, those that no other contains. To find
them all is exponential in the length of a group whose members depend on each other. If the members
do not, `slices` finds the same matches without this cost. If they depend only on their neighbours,
*chains* avoid most of it.

A match that leaves out an entry that a greedy group could take is not valid (`greedy`).

A chain is a group whose elements depend only on their neighbours, like `b[i].x > b[i-1].x`. The
neighbours, and the single events before the group, decide whether one more element fits between two
others or at either end. So a search for maximal matches backtracks as soon as a run has passed over
an entry that fits. The match with that entry is larger, whatever follows. Two entries that fit only
together are not noticed this way. Matches that other matches contain for that reason are removed at
the end.

Under the conditions in `chains` the larger match is valid. Its first entry is no later and its last
entry no earlier, so the gaps of negations are no larger (as in
`topology.queries.pattern.tree.free_groups`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from topology.queries.pattern.match.evaluation import Evaluation, Place, StepBudget
from topology.queries.pattern.match.layout import Layout
from topology.queries.pattern.match.match import Match, in_order
from topology.queries.pattern.match.tactics.maximal import select_maximal
from topology.queries.pattern.match.tactics.rules import RunRules
from topology.queries.pattern.match.tactics.search import RunSearch
from topology.queries.pattern.match.twins import Twins
from topology.queries.pattern.store.entry import Entry
from topology.queries.pattern.tree.free_groups import is_boundless
from topology.queries.pattern.tree.mentions import find_mentions
from topology.queries.pattern.tree.normal_form import Alternative, Component, Predicate


class Finder(Protocol):
    """A finder of the matches of one alternative, in the order of `match.in_order`.

    If there are more than `wanted` matches, it finds at least that many.
    """

    def find(self, place: Place, anchor: Entry, wanted: int, budget: StepBudget) -> list[Match]: ...


class Enumeration:
    """The tactic of all modes except ONE and BEST; it combines the results of finders."""

    def __init__(self, layouts: Sequence[Layout], finders: Sequence[Finder]) -> None:
        query = layouts[0].query
        self._finders = finders
        self._twins = Twins(layouts)
        self._limit = query.limit
        waits = not layouts[0].by_end or any(layout.looks_ahead for layout in layouts)
        self._reach_ns = layouts[0].span_ns if waits else 0

    def evaluate(self, place: Place, anchor: Entry) -> Evaluation:
        budget = StepBudget(self._limit)
        matches: list[Match] = []
        for finder in self._finders:
            matches += finder.find(place, anchor, self._limit + 1, budget)
        if self._twins.may_be:
            matches = self._twins.merge(matches)
        if len(self._finders) > 1:
            matches = in_order(matches)
        return Evaluation(
            matches[: self._limit],
            overflow=len(matches) > self._limit or budget.is_spent,
            hi_ns=anchor.time_ns + self._reach_ns,
            steps=budget.steps,
        )


class Exhaustive:
    """A finder that handles any alternative."""

    def __init__(self, layout: RunRules) -> None:
        self._rules = layout
        self._in_order = layout.by_end and layout.alternative.is_linear
        self._maximal = layout.matches == "maximal" and any(
            part.is_group or part.is_optional for part in layout.components
        )
        self._chains = find_chains(layout.alternative) if self._maximal else [False] * layout.count

    def find(self, place: Place, anchor: Entry, wanted: int, budget: StepBudget) -> list[Match]:
        most = budget.most if self._maximal else wanted
        search = RunSearch(self._rules, place, budget, anchor, most, self._chains)
        search.find_all()
        found = search.found
        if self._maximal:
            found = select_maximal(found[:wanted] if budget.is_spent else found)
        return found if self._in_order else in_order(found)


def find_chains(alternative: Alternative) -> list[bool]:
    """Return for each component whether it is a chain."""
    parts = alternative.components
    if not alternative.is_linear or any(part.edge != "any" or part.greedy for part in parts):
        return [False] * len(parts)
    return [
        is_boundless(alternative, part)
        and all(
            _relates_neighbours(predicate, alternative, part)
            for predicate in alternative.predicates
            if part.index in predicate.aliases
        )
        for part in parts
    ]


def _relates_neighbours(
    predicate: Predicate, alternative: Alternative, component: Component
) -> bool:
    others = [alternative.components[j] for j in predicate.aliases - {component.index}]
    if any(other.is_group or other.index > component.index for other in others):
        return False
    if not predicate.skips_absent:
        return False
    # A mention without an alias is `[x]`, which reads the field of every event.
    named = list(find_mentions(predicate.expr))
    own = {mention.how for mention in named if mention.alias in {component.alias, ""}}
    offsets = {mention.number for mention in named if mention.how == "each"}
    if not own <= {"plain", "each"} or ("plain" in own and offsets):
        return False  # With both forms, every element is paired with every i.
    return not offsets or max(offsets) - min(offsets) <= 1
