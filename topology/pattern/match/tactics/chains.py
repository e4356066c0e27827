"""Groups whose elements depend on their neighbours only, like `b[i].x > b[i-1].x`: chains.

Source: patterns.md 3.3. Such a group is not free, but whether one more element can be put in
between two others, or at either end, is seen from these alone and from singles that stand before
the group. So a search for maximal matches turns back as soon as a run has passed over an entry
that fits in: whatever follows, the match with that entry is larger. (Two entries that fit in
together only are not seen so; matches that are contained in others for that are sifted at the end.)

Under the conditions here the larger match is valid: it has the earlier first and the later last
entry, hence the smaller gaps for negations (as in `topology.pattern.tree.free_groups`).
"""

from __future__ import annotations

from topology.pattern.tree import syntax
from topology.pattern.tree.free_groups import is_boundless
from topology.pattern.tree.normal_form import Alternative, Component, Predicate
from topology.pattern.tree.walk import walk


def chains(alternative: Alternative) -> list[bool]:
    """By component."""
    parts = alternative.components
    if not alternative.is_linear or any(part.edge != "any" or part.greedy for part in parts):
        return [False] * len(parts)
    return [_is_chain(alternative, component) for component in parts]


def _is_chain(alternative: Alternative, component: Component) -> bool:
    return is_boundless(alternative, component) and all(
        _is_of_neighbours(predicate, alternative, component)
        for predicate in alternative.predicates
        if component.index in predicate.aliases
    )


def _is_of_neighbours(predicate: Predicate, alternative: Alternative, component: Component) -> bool:
    others = [alternative.components[j] for j in predicate.aliases - {component.index}]
    if any(other.is_group or other.index > component.index for other in others):
        return False
    if not predicate.skips_absent:
        return False
    offsets: set[int] = set()
    is_plain = False
    for part in walk(predicate.expr):
        match part:
            case syntax.Same() | syntax.Test():
                return False
            case syntax.Aggregate(alias=alias) if alias == component.alias:
                return False
            case syntax.Ref(alias=alias, index=syntax.Each(offset=offset)):
                offsets.add(offset)
            case syntax.Ref(alias=alias, index=None) if alias == component.alias:
                is_plain = True
            case syntax.Ref(alias=alias, index=syntax.At()) if alias == component.alias:
                return False
    if is_plain and offsets:
        return False  # every element with every i
    return not offsets or max(offsets) - min(offsets) <= 1
