"""Finds free groups: a maximal match has every eligible entry between the group's neighbours.

A group is free if no condition relates its elements to each other, to another group, or to their
number. So it has no maximum and no UNTIL, and is not greedy. No predicate has an index or an
aggregate over it. Every step into, out of and within the group is under skip-till-any. A condition
like `b.x > a.x` may relate an element to single events, because it concerns no other element.

For given single events, take all eligible entries between the neighbours. They are a match if any
subset of them is a match. They include the earliest first entry and the latest last entry, so the
gaps for negations are the smallest. This is not true of STRICT negations, nor of those that name
elements of the group. A group with such a negation is not free.
"""

from __future__ import annotations

from topology.queries.pattern.tree.mentions import find_aliases, find_mentions
from topology.queries.pattern.tree.normal_form import Alternative, Component, Predicate
from topology.queries.pattern.tree.syntax import UNBOUNDED


def is_free(alternative: Alternative, component: Component) -> bool:
    """Return whether a component is free; a single event is, unless it is greedy.

    A greedy component must take events that another component could leave out.
    """
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
    """Return whether, predicates aside, a group may gain or lose any number of events.

    This depends on its maximum, on the contiguity within it (`loop`), on its UNTIL, and on the
    negations.
    """
    if component.maximum != UNBOUNDED or component.until is not None or component.loop != "any":
        return False
    for blocker in alternative.blockers:
        named = {alias for expr in blocker.predicates for alias in find_aliases(expr)}
        if blocker.strict or component.alias in named:
            return False
    return True


def _is_of_elements(predicate: Predicate, alternative: Alternative, component: Component) -> bool:
    """Return whether a predicate relates each element of a group at most to single events.

    The predicate must also have no effect if one of these single events is absent.
    """
    others = [alternative.components[j] for j in predicate.aliases - {component.index}]
    if any(other.is_group for other in others) or not predicate.skips_absent:
        return False
    return all(
        mention.how != "all" and (mention.how == "plain" or mention.alias != component.alias)
        for mention in find_mentions(predicate.expr)
    )
