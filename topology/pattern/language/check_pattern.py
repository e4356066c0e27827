"""Checks of what is looked for: components, counts, negations, UNTIL."""

from __future__ import annotations

from typing import Final

from topology.pattern.language.value_types import Types
from topology.pattern.tree.defaults import can_be_absent
from topology.pattern.tree.errors import Findings, cut, meant
from topology.pattern.tree.mentions import aliases
from topology.pattern.tree.normal_form import EDGES, MAX_ALTERNATIVES, MAX_COMPONENTS
from topology.pattern.tree.partial_order import NegatedSpot, Part, size, spread
from topology.pattern.tree.syntax import (
    UNBOUNDED,
    AllOf,
    AnyOf,
    EventNode,
    Matches,
    Negation,
    Node,
    Query,
    Seq,
    Span,
)
from topology.pattern.tree.walk import components
from topology.pattern.tree.words import MAX_NS

MAX_TIMES: Final = 1_000_000
"""The largest number in a count `{n,m}`."""

Way = tuple[tuple[str, int], ...]
"""From the root of a pattern to a component: SEQ, AND or OR, and which of its parts."""


def check_pattern(query: Query, types: Types | None, findings: Findings) -> None:
    seen: set[str] = set()
    for component in components(query.node):
        if component.alias in seen:
            message = f"two components are called `{component.alias}`"
            findings.add("E_ALIAS_TWICE", component.span, message, "rename one of them")
        seen.add(component.alias)
        _declared(component, types, findings)
        if isinstance(component, EventNode):
            _counted(component, query.matches, findings)
    if _matches_something(query, findings):
        _lasting(query, findings)
    _until(query, findings)


def check_skip(query: Query, clause: Span, findings: Findings) -> None:
    """`clause`: the place of SKIP."""
    known = {each.alias: each for each in components(query.node)}
    if query.skip_to and query.skip_to not in known:
        message = f"no component is called `{cut(query.skip_to)}`"
        findings.add("E_ALIAS_UNKNOWN", clause, message, meant(query.skip_to, known))
    elif query.skip_to and isinstance(known[query.skip_to], Negation):
        message = f"`{query.skip_to}` must not happen: no match holds it to SKIP to"
        hint = "name a component that is part of the match"
        findings.add("E_ALIAS_ORDER", clause, message, hint)


def _declared(component: EventNode | Negation, types: Types | None, findings: Findings) -> None:
    for name in component.types if types is not None else ():
        if name not in (types or {}):
            message = f"there is no event type `{name}`"
            findings.add("E_TYPE_UNKNOWN", component.span, message, meant(name, types or {}))


def _counted(event: EventNode, matches: Matches, findings: Findings) -> None:
    low, high = event.minimum, event.maximum
    if high == 0:
        message, hint = "a group of none", "write ! for what must not happen, ? for what may"
    elif low < 0 or high < UNBOUNDED or (high != UNBOUNDED and high < low):
        message, hint = f"from {low} to {high} is no range", f"write {{{high},{low}}}"
    elif max(low, high) > MAX_TIMES:
        message, hint = f"more than {MAX_TIMES} events", "write a smaller number, or + for any"
    elif event.loop is not None and not event.is_group:
        message, hint = "LOOP says how a group goes on, and this is none", "write a count, like +"
    elif event.greedy and (low, high) == (1, 1):
        message, hint = "a single event cannot be GREEDY", "write a count, like +"
    elif event.reluctant and event.greedy:
        message = "a group that prefers fewer events cannot be GREEDY"
        hint = "leave out GREEDY, or the ? behind the count"
    elif event.reluctant and matches != "best":
        message = "the ? behind a count prefers fewer events, and only MATCHES BEST prefers"
        hint = "write MATCHES BEST, or leave the ? out"
    else:
        return
    findings.add("E_QUANT", event.span, message, hint)


def _matches_something(query: Query, findings: Findings) -> bool:
    """Whether each of its alternatives can be looked at."""
    lone = _lone_negations(query.node, findings)
    if not lone and can_be_absent(query.node):
        message = "the pattern could match nothing: all of it is optional"
        findings.add("E_ALL_OPTIONAL", query.node.span, message, "write + for one of the *")
    alternatives, most = size(query.node)
    if alternatives > MAX_ALTERNATIVES or most > MAX_COMPONENTS:
        message = (
            f"{alternatives} ways through the ORs with up to {most} components, "
            f"more than {MAX_ALTERNATIVES} or {MAX_COMPONENTS}"
        )
        findings.add("E_TOO_LARGE", query.node.span, message, "split it in several queries")
        return False
    return not lone


def _lasting(query: Query, findings: Findings) -> None:
    for part in spread(query.node):
        for gap in part.gaps:
            length_ns, span = gap.negation.for_ns, gap.negation.span
            if length_ns is None:
                continue
            if not 0 < length_ns <= MAX_NS:
                message = f"nothing happens FOR {length_ns} ns"
                hint = "it must be above 0 and at most 2^62 ns"
                findings.add("E_WINDOW", span, message, hint)
            hindrance = _hindrance(gap, part, query)
            if hindrance:
                findings.add("E_NOT_PLACE", span, *hindrance)


def _hindrance(gap: NegatedSpot, part: Part, query: Query) -> tuple[str, str] | None:
    """Why it cannot have FOR here, and what to write."""
    if any(part.spots[at].node.minimum == 0 for at in gap.left | gap.right):
        message = "FOR beside what may be absent is not supported yet"
        return message, "write one query with it and one without"
    if any((part.spots[at].edge or EDGES[query.strategy]) == "strict" for at in gap.right):
        message = "a STRICT step behind FOR is not supported yet"
        return message, "write NEXT before what follows, or leave FOR out"
    if any(other is not gap and _share(gap, other) for other in part.gaps):
        message = "FOR beside another negation is not supported yet"
        return message, "write both as one, like !B|C FOR 5 s"
    return None


def _share(gap: NegatedSpot, other: NegatedSpot) -> bool:
    return (gap.left, gap.right) == (other.left, other.right)


def _lone_negations(node: Node | Negation, findings: Findings) -> bool:
    """Whether somewhere in it is a SEQ of nothing but negations."""
    if isinstance(node, Seq | AllOf | AnyOf) and not any(
        isinstance(each, EventNode) for each in components(node)
    ):
        message = "nothing here has to happen: there is no event beside the negation"
        findings.add("E_NOT_ALONE", node.span, message, "add the event that it is beside")
        return True
    found = [_lone_negations(each, findings) for each in node.children]
    return any(found)


def _until(query: Query, findings: Findings) -> None:
    ways = dict(_ways(query.node, ()))
    negated = {each.alias for each in components(query.node) if isinstance(each, Negation)}
    for event in components(query.node):
        if not isinstance(event, EventNode) or event.until is None:
            continue
        if not event.is_group:
            message = "UNTIL ends a group, and this is none"
            findings.add("E_UNTIL", event.until.span, message, "write a count, like +")
        for alias in sorted(aliases(event.until) & ways.keys() - {event.alias}):
            if alias in negated:
                message = f"`{alias}` must not happen, so UNTIL cannot ask for it"
            else:
                relation = _relation(ways[alias], ways[event.alias])
                if relation == "before":
                    continue
                message = f"`{alias}` is not known while the group `{event.alias}` grows"
                if relation == "beside":
                    hint = "AND and OR do not say which comes first"
                    findings.add("E_ALIAS_ORDER", event.until.span, message, hint)
                    continue
            hint = "ask for what comes before the group"
            findings.add("E_UNTIL", event.until.span, message, hint)


def _ways(node: Node | Negation, above: Way) -> list[tuple[str, Way]]:
    if isinstance(node, EventNode | Negation):
        return [(node.alias, above)]
    word = type(node).__name__
    return [
        found
        for index, each in enumerate(node.children)
        for found in _ways(each, (*above, (word, index)))
    ]


def _relation(one: Way, other: Way) -> str:
    """`before`, `after` or `beside`: the place of one component relative to the other."""
    for (word, index), (_, second) in zip(one, other, strict=False):
        if index != second:
            return "beside" if word != "Seq" else "before" if index < second else "after"
    return "beside"
