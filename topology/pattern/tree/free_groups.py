"""Which groups are free: of them a maximal match holds all entries there are.

A group is free if nothing relates its elements to each other, to another
group, or to how many they are: no maximum, no UNTIL, not greedy, no predicate with an index or an
aggregate over it, every step from, to and within it under skip-till-any. An element may depend on
singles (`b.x > a.x`): whether it fits is then its own affair.

So for given singles the whole of the eligible entries between the neighbours is a match if any
subset of it is, as it has the earliest first and the latest last entry, and so the smallest gaps
for negations; only STRICT ones and ones tied to elements of the group do not follow that.
"""

from __future__ import annotations

from topology.pattern.tree.mentions import aliases, mentions
from topology.pattern.tree.normal_form import Alternative, Component, Predicate
from topology.pattern.tree.syntax import UNBOUNDED


def is_free(alternative: Alternative, component: Component) -> bool:
    """A single is, being no group. What is greedy must take what another could leave out."""
    if component.greedy:
        return False
    if not component.is_group:
        return True
    if any(part.edge != "any" for part in alternative.components):
        return False
    return is_boundless(alternative, component) and all(
        _is_of_elements(predicate, alternative, component)
        for predicate in alternative.predicates
        if component.index in predicate.aliases
    )


def is_boundless(alternative: Alternative, component: Component) -> bool:
    """A group that any number of events may join or leave, as far as counts, UNTIL and the
    negations go; its predicates are another matter."""
    if component.maximum != UNBOUNDED or component.until is not None or component.loop != "any":
        return False
    for blocker in alternative.blockers:
        named = {alias for expr in blocker.predicates for alias in aliases(expr)}
        if blocker.strict or component.alias in named:
            return False
    return True


def _is_of_elements(predicate: Predicate, alternative: Alternative, component: Component) -> bool:
    """Does it say something of each element, with nothing but singles, if they are there?"""
    others = [alternative.components[j] for j in predicate.aliases - {component.index}]
    if any(other.is_group for other in others) or not predicate.skips_absent:
        return False
    return all(
        mention.how != "all" and (mention.how == "plain" or mention.alias != component.alias)
        for mention in mentions(predicate.expr)
    )
