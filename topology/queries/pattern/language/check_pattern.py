"""Checks the pattern of a query: its components, counts, negations and UNTIL."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

from topology.queries.pattern.tree.defaults import can_be_absent
from topology.queries.pattern.tree.errors import Findings, shorten, suggest
from topology.queries.pattern.tree.mentions import find_aliases
from topology.queries.pattern.tree.normal_form import EDGES, describe_excess, parts_of
from topology.queries.pattern.tree.partial_order import NegatedSpot, Part, spread
from topology.queries.pattern.tree.syntax import (
    UNBOUNDED,
    AllOf,
    AnyOf,
    CountedNode,
    EventNode,
    Matches,
    Negation,
    Node,
    Query,
    Seq,
    Span,
)
from topology.queries.pattern.tree.turns import Turns, find_counted_groups
from topology.queries.pattern.tree.walk import find_components, walk
from topology.queries.pattern.tree.words import MAX_NS

MAX_TIMES: Final = 1_000_000
"""The maximum of `n` and `m` in a count `{n,m}`."""


def check_pattern(query: Query, findings: Findings) -> None:
    named = [(name, each.span) for each in walk(query.node) if (name := _name_of(each))]
    findings.report_repeated_names("components", named)
    for node in walk(query.node):
        if isinstance(node, EventNode | CountedNode):
            for message, hint in islice(_find_miscounts(node, query.matches), 1):
                findings.add("E_QUANT", node.span, message, hint)
        if isinstance(node, AllOf):
            _check_any_order(node, findings)
    is_sound, is_small = not findings.errors, _check_size(query.node, findings)
    has_events = not _check_lone_negations(query.node, findings)
    if is_sound and is_small and has_events:
        if can_be_absent(query.node):
            message = "all parts may be absent: a match has whichever of them occur"
            findings.add("W_EMPTY", query.node.span, message, "make one part mandatory")
        turns = Turns(query.node)
        _check_lone_branches(turns, findings)
        parts = parts_of(turns.node)
        for part in parts:
            _check_durations(part, query, findings)
        _check_steps(parts, findings)
    if is_small:
        _check_until(query, findings)


def _name_of(node: Node | Negation) -> str:
    """Return the name of a component or of a counted group, or an empty string if it has none."""
    if isinstance(node, EventNode | Negation):
        return node.alias
    return node.name if isinstance(node, CountedNode) else ""


def check_skip(query: Query, clause: Span, findings: Findings) -> None:
    """Check that SKIP TO names a component of the match; `clause` is SKIP's place in the text."""
    known = {each.alias: each for each in find_components(query.node)}
    if query.skip_to and query.skip_to not in known:
        message = f"no component is called `{shorten(query.skip_to)}`"
        findings.add("E_ALIAS_UNKNOWN", clause, message, suggest(query.skip_to, known))
    elif query.skip_to and isinstance(known[query.skip_to], Negation):
        message = f"`{query.skip_to}` is negated, so no match contains it"
        hint = "name a component that is part of the match"
        findings.add("E_ALIAS_ORDER", clause, message, hint)


def _find_miscounts(node: EventNode | CountedNode, matches: Matches) -> Iterator[tuple[str, str]]:
    """Yield the errors in the count of a node, each with a hint.

    Each error is reliable only if no error precedes it, so callers use the first one.
    """
    low, high = node.minimum, node.maximum
    if high == 0:
        yield "the count is 0", "write ! for an event that must not happen, ? for an optional one"
    if low < 0 or high < UNBOUNDED or UNBOUNDED < high < low:
        yield f"{low} to {high} is not a range", f"write {{{high},{low}}}"
    if isinstance(node, CountedNode):
        more, loops, example = "turns", node.loop is not None, "{2}"
        if high == UNBOUNDED:
            hint = "write one, like {1,4}; only the count of a single event, like B+, may be open"
            yield "the count of a group of several events needs an upper bound", hint
        if high > 1 and matches != "best" and can_be_absent(node.node):
            message = "a turn of the group could be empty, so turns could not be counted"
            yield message, "make one event of a turn mandatory"
    else:
        more, loops, example = "events", bool(node.loop) or node.loop_within_ns is not None, "+"
        if max(low, high) > MAX_TIMES:
            yield f"more than {MAX_TIMES} events", "write a smaller number, or + for any"
    if high == 1 and loops:
        yield "LOOP needs a group", f"write a count, like {example}"
    if isinstance(node, EventNode) and node.greedy and low == high == 1:
        yield "a single event cannot be GREEDY", "write a count, like +"
    if isinstance(node, EventNode) and node.greedy and node.reluctant:
        hint = "leave out GREEDY, or the ? after the count"
        yield "a group that prefers fewer events cannot be GREEDY", hint
    if node.reluctant and matches != "best":
        message = f"the ? after a count prefers fewer {more}, which needs MATCHES BEST"
        yield message, "write MATCHES BEST, or leave the ? out"


def _check_any_order(node: Node | Negation, findings: Findings) -> None:
    """Report an error for each count of a group inside an AND that prefers fewer turns."""
    for each in walk(node):
        if isinstance(each, CountedNode) and each.reluctant:
            message = "an AND prefers events in their order of time, so ? after a group's count"
            hint = "leave the ? out, or write a SEQ for each order"
            findings.add("E_QUANT", each.span, f"{message} has no effect", hint)


def _check_steps(parts: Sequence[Part], findings: Findings) -> None:
    spots = [spot for part in parts for spot in part.spots.values()]
    behind = {spot.node.alias for spot in spots if spot.before}
    for spot in spots:
        if spot.within_ns is not None and spot.node.alias not in behind:
            message = "WITHIN on a step counts from the event before it, but there is none"
            hint = "leave it out; the WITHIN of the query limits the whole match"
            findings.add("E_WINDOW", spot.node.span, message, hint)


def _check_size(node: Node, findings: Findings) -> bool:
    """Return whether the pattern may be expanded; report an error if it is too large."""
    message, hint = describe_excess(node), "split it into several queries"
    if message:
        if any(isinstance(each, CountedNode) for each in walk(node)):
            message = f"with its counts written out, {message}"
            hint = "write smaller counts, or split it into several queries"
        findings.add("E_TOO_LARGE", node.span, message, hint)
    return not message


def _check_durations(part: Part, query: Query, findings: Findings) -> None:
    for gap in part.gaps:
        length_ns, span = gap.negation.for_ns, gap.negation.span
        if length_ns is None:
            continue
        if not 0 < length_ns <= MAX_NS:
            message = f"the time after FOR is {length_ns} ns"
            hint = "it must be above 0 and at most 2^62 ns"
            findings.add("E_WINDOW", span, message, hint)
        hindrance = _find_obstacle(gap, part, query)
        if hindrance:
            findings.add("E_NOT_PLACE", span, *hindrance)


def _find_obstacle(gap: NegatedSpot, part: Part, query: Query) -> tuple[str, str] | None:
    """Return an error and its hint if FOR is not supported at this negation, or None if it is."""
    if any((part.spots[at].edge or EDGES[query.strategy]) == "strict" for at in gap.right):
        message = "a STRICT step after FOR is not supported yet"
        return message, "write NEXT before the next component, or leave FOR out"
    if gap.beside and not _has_beginning(gap, part):
        message = "no event is sure to come before the AND, so its FOR has no beginning"
        return message, "put a mandatory event before it, like SEQ(A a, AND(!B FOR 5 s, C c))"
    if any(other is not gap and _share_place(gap, other, part) for other in part.gaps):
        message = "two negations in one place need FOR on both, and a mandatory event before them"
        return message, "write both as one, like !B|C FOR 5 s"
    if gap.after and gap.strict:
        message = "a STRICT negation after another negation with FOR is not supported"
        return message, "leave STRICT out"
    absent = frozenset(at for at in gap.left if part.spots[at].node.minimum == 0)
    if any(other.negation.for_ns and other.right & absent for other in part.gaps):
        message = "FOR after an optional component that follows another FOR is not supported"
        return message, "write one query with it and one without it"
    return None


def _has_beginning(gap: NegatedSpot, part: Part) -> bool:
    """Return whether each match has an event before the negation."""
    before = gap.left.union(*(spot.before for spot in part.find_spots(gap.left)))
    return any(spot.node.minimum for spot in part.find_spots(before))


def _share_place(gap: NegatedSpot, other: NegatedSpot, part: Part) -> bool:
    if gap.beside and other.beside:
        return False
    are_timed = other.negation.for_ns and gap.after != other.after
    is_apart = are_timed and _has_beginning(gap, part)
    return (gap.left, gap.right) == (other.left, other.right) and not is_apart


def _check_lone_negations(
    node: Node | Negation, findings: Findings, *, inside: bool = False
) -> bool:
    """Return whether the pattern contains a SEQ, AND or OR without any event.

    Each of them is reported. An AND that is not the whole pattern may consist of negations alone if
    each of them has FOR.
    """
    if isinstance(node, Seq | AllOf | AnyOf) and not any(
        isinstance(each, EventNode) for each in find_components(node)
    ):
        if inside and isinstance(node, AllOf) and all(map(_is_timed, node.nodes)):
            return False
        message = "a match needs an event, but there is no event beside the negation"
        findings.add("E_NOT_ALONE", node.span, message, "add an event before or after it")
        return True
    if isinstance(node, AllOf):
        _check_negations_in_and(node, findings)
    found = [_check_lone_negations(each, findings, inside=True) for each in node.children]
    return any(found)


def _check_lone_branches(turns: Turns, findings: Findings) -> None:
    """Report an error for each negation in an OR that could be the only part of a match."""
    branches = {
        each
        for node in walk(turns.node)
        if isinstance(node, AnyOf)
        for each in node.nodes
        if isinstance(each, Negation)
    }
    for part in spread(turns.node):
        for gap in () if part.spots else part.gaps:
            if gap.negation in branches:
                message = "a match of this negation alone would have no event"
                hint = "put an event before the OR, like SEQ(A a, OR(C c, !B FOR 5 s))"
                findings.add("E_NOT_ALONE", gap.negation.span, message, hint)


def _is_timed(node: Node | Negation) -> bool:
    return isinstance(node, Negation) and node.for_ns is not None


def _check_negations_in_and(node: AllOf, findings: Findings) -> None:
    """Report an error for each negation without FOR in an AND that does not have exactly one event.

    If the AND has exactly one event, the negation ends with that event.
    """
    positive = [each for each in node.nodes if not isinstance(each, Negation)]
    if len(positive) == 1 and isinstance(positive[0], EventNode):
        return
    for each in node.nodes:
        if isinstance(each, Negation) and each.for_ns is None:
            message = "in an AND of several events, the end of the negation is not defined"
            findings.add("E_NOT_PLACE", each.span, message, "add a duration, like !B FOR 5 s")


def _check_until(query: Query, findings: Findings) -> None:
    known = {each.alias: each for each in find_components(query.node)}
    counted = [group.aliases for group in find_counted_groups(query.node)]
    for event in find_components(query.node):
        if not isinstance(event, EventNode) or event.until is None:
            continue
        if not event.is_group:
            message = "UNTIL needs a group"
            findings.add("E_UNTIL", event.until.span, message, "write a count, like +")
        for alias in sorted(find_aliases(event.until) & known.keys() - {event.alias}):
            if isinstance(known[alias], Negation):
                message = f"`{alias}` is negated, so UNTIL cannot use it"
            elif any(alias in group and event.alias not in group for group in counted):
                message = f"`{alias}` is in each turn of its group, so UNTIL cannot choose one"
            else:
                relation = _relation_of(query.node, alias, event.alias)
                if relation == "before":
                    continue
                message = f"`{alias}` is not known while the group `{event.alias}` grows"
                if relation == "beside":
                    hint = "AND and OR do not define which comes first; use SEQ"
                    findings.add("E_ALIAS_ORDER", event.until.span, message, hint)
                    continue
            hint = "use an event that comes before the group"
            findings.add("E_UNTIL", event.until.span, message, hint)


def _relation_of(node: Node | Negation, one: str, other: str) -> str:
    """Return whether the component `one` is `before`, `after` or `beside` the other."""
    parts = [{each.alias for each in find_components(child)} for child in node.children]
    first, second = (
        next(at for at, part in enumerate(parts) if alias in part) for alias in (one, other)
    )
    if first == second:
        return _relation_of(node.children[first], one, other)
    if not isinstance(node, Seq):
        return "beside"
    return "before" if first < second else "after"
