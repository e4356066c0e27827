"""Finds the free groups: a maximal match has all their eligible entries between the neighbours.

A group is free if nothing relates its elements to each other, to another group, or to their number.
So it has no maximum and no UNTIL, and is not greedy. No predicate has an index or an aggregate over
it. Every step from, to and within it is under skip-till-any. A condition like `b.x > a.x` may
relate an element to singles, since it concerns no other element.

For given singles, take all eligible entries between the neighbours. They are a match if any subset
of them is one. They have the earliest first and the latest last entry, so the gaps for negations
are the smallest. This is not true of STRICT negations, nor of those that name elements of the
group. With one of these the group is not free.
"""

from __future__ import annotations

from topology.pattern.tree.mentions import aliases, mentions
from topology.pattern.tree.normal_form import Alternative, Component, Predicate
from topology.pattern.tree.syntax import UNBOUNDED


def is_free(alternative: Alternative, component: Component) -> bool:
    """Return whether a component is free, as every single is unless it is greedy.

    A greedy component must take events that another could leave out.
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
    """Return whether any number of events may join or leave a group.

    This considers its counts, its UNTIL and the negations. Its predicates are not considered.
    """
    if component.maximum != UNBOUNDED or component.until is not None or component.loop != "any":
        return False
    for blocker in alternative.blockers:
        named = {alias for expr in blocker.predicates for alias in aliases(expr)}
        if blocker.strict or component.alias in named:
            return False
    return True


def _is_of_elements(predicate: Predicate, alternative: Alternative, component: Component) -> bool:
    """Return whether a predicate concerns each element by itself, or only together with singles.

    It must have no effect if one of those singles is absent.
    """
    others = [alternative.components[j] for j in predicate.aliases - {component.index}]
    if any(other.is_group for other in others) or not predicate.skips_absent:
        return False
    return all(
        mention.how != "all" and (mention.how == "plain" or mention.alias != component.alias)
        for mention in mentions(predicate.expr)
    )
