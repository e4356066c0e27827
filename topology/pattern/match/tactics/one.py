"""MATCHES ONE: the walk from a start event, over all alternatives, is one match or none.

Source: patterns.md 2.3. What a walk has taken is a match if all components have their minimum;
negations are regarded only then, and there is no second try. With several
alternatives the valid walk that ends first is the match, then that of the lower number.
"""

from __future__ import annotations

from collections.abc import Sequence

from topology.pattern.match.evaluation import Evaluation, Place, StepBudget
from topology.pattern.match.layout import Layout, as_binding
from topology.pattern.match.match import Match
from topology.pattern.match.tactics.walk import Route, Walk
from topology.pattern.store.entry import Entry


class One:
    """ONE. A unit's `waits` are the components that a start still lacks: as long as none of
    these gets a new entry there is no match, so a start is woken about as often as it has
    components. Where all is there and the walk only grows, they are the open ones."""

    def __init__(self, layouts: Sequence[Layout]) -> None:
        self._routes = [Route(layout) for layout in layouts]
        self._within_ns = layouts[0].within_ns
        self._limit = layouts[0].query.limit

    def evaluate(self, place: Place, anchor: Entry) -> Evaluation:
        budget = StepBudget(self._limit)
        until_ns = anchor.time_ns + self._within_ns
        evaluation = Evaluation(hi_ns=anchor.time_ns)
        waits: list[tuple[int, int]] = []
        best: Walk | None = None
        unsettled = False
        for route in self._routes:
            walk = Walk(route, place, anchor, budget)
            walk.go()
            if walk.last is None:
                continue
            waits += _waits(walk)
            evaluation.hi_ns = max(evaluation.hi_ns, _decided_ns(walk, until_ns))
            match = _match(walk, place, budget)
            unsettled = unsettled or (match is None and _may_be_unblocked(walk))
            if match is not None and (best is None or walk.end < best.end):
                best = walk
                evaluation.matches = [match]
        if best is not None:
            ends = _waits_for_negation(best)
            waits = waits + ends if best.open else ends
            evaluation.hi_ns = until_ns if waits else _decided_ns(best, until_ns)
        if unsettled:
            evaluation.hi_ns = until_ns
        if budget.is_spent:
            evaluation.matches = []
            evaluation.overflow = True
        evaluation.waits = frozenset(waits)
        evaluation.steps = budget.steps
        return evaluation


def _match(walk: Walk, place: Place, budget: StepBudget) -> Match | None:
    """The walk's, if it has all, and no predicate on the whole and no negation forbids it."""
    route = walk.route
    last = walk.last
    if last is None or not walk.is_complete or not route.rules.holds_at_end(walk.bound):
        return None
    if route.blockers.blocked(place, as_binding(walk.bound), walk.start, last, budget):
        return None
    members = tuple([tuple(entries) for entries in walk.bound[: route.layout.count]])
    return Match(route.layout.number, members, walk.start, last)


def _decided_ns(walk: Walk, until_ns: int) -> int:
    """No event after this instant changes what the walk takes."""
    if walk.last is None or walk.open:
        return until_ns
    if walk.closed_ns is not None:
        return min(until_ns, max(walk.last.time_ns, walk.closed_ns))
    return walk.last.time_ns if walk.is_complete else until_ns


def _waits(walk: Walk) -> list[tuple[int, int]]:
    """Components that must get an entry before the outcome of the walk is another."""
    complete = walk.is_complete
    minimum = walk.route.rules.minimum
    return [
        (walk.route.layout.number, j)
        for j in walk.open
        if complete or len(walk.bound[j]) < minimum[j]
    ]


def _may_be_unblocked(walk: Walk) -> bool:
    """A STRICT negation at the end looks at the very next event, and another may come before it."""
    return walk.is_complete and walk.route.blockers.asks_for_next(walk.bound)


def _waits_for_negation(walk: Walk) -> list[tuple[int, int]]:
    return [(walk.route.layout.number, slot) for slot in walk.route.blockers.waiting(walk.bound)]
