"""Groups whose elements depend on their neighbours only, like `b[i].x > b[i-1].x`: chains.

Source: patterns.md 3.3. Such a group is not free, but whether one more element can be put in
between two others, or at either end, is seen from these alone and from singles that stand before
the group. So a search for maximal matches turns back as soon as a run has passed over an entry
that fits in: whatever follows, the match with that entry is larger. (Two entries that fit in
together only are not seen so; matches that are contained in others for that are sifted at the end.)

Under the conditions here the larger match is valid: it has the earlier first and the later last
entry, hence the smaller gaps for negations (as in `topology.pattern.tree.free_groups`).

Proved by: tests/topology/pattern/test_tactics.py, tests/topology/pattern/test_tactics_work.py
"""

from __future__ import annotations

from topology.pattern.tree.free_groups import is_boundless
from topology.pattern.tree.mentions import mentions
from topology.pattern.tree.normal_form import Alternative, Component, Predicate


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
    named = list(mentions(predicate.expr))
    if any(mention.how in {"all", "python"} for mention in named):
        return False
    own = {mention.how for mention in named if mention.alias == component.alias}
    offsets = {mention.number for mention in named if mention.how == "each"}
    if not own <= {"plain", "each"} or ("plain" in own and offsets):
        return False  # with both every element goes with every i
    return not offsets or max(offsets) - min(offsets) <= 1
