"""Computes the normal form of a query: alternatives without OR, each a partial order of components.

`turns` writes out the counts of groups, `partial_order` expands the tree, and `equivalence` finds
the partition key. The names in a conjunct of WHERE decide where it is tested: by the partition key,
among a component's own conditions, or at a negation. All other conjuncts are in
`Alternative.predicates`. A conjunct that tests one optional component for NULL is in two places. It
is among the component's own conditions, for its events, and among the predicates, for its absence.

- A conjunct may name an alias of another branch of an OR. That component then counts as optional
  and absent: the conjunct is left out, unless it tests for NULL.
- `[a]` within OR or NOT is a predicate over all components. It does not apply to negated events.

Cost: linear in the total size of the alternatives, except for the partial order, which is
quadratic. Each combination of OR branches is an alternative, at most `MAX_ALTERNATIVES`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Final

from topology.queries.pattern.tree import syntax
from topology.queries.pattern.tree.equivalence import find_partition_paths, is_implied_by
from topology.queries.pattern.tree.fingerprint import compute_fingerprint
from topology.queries.pattern.tree.mentions import find_aliases, find_mentions, looks_at_time
from topology.queries.pattern.tree.partial_order import (
    MANY,
    Aliases,
    Branches,
    NegatedSpot,
    Part,
    Spot,
    size,
    spread,
)
from topology.queries.pattern.tree.syntax import Column, Edge, EventNode, Expr, Node, Query
from topology.queries.pattern.tree.turns import Turns
from topology.queries.pattern.tree.walk import flatten, split_conjuncts, walk

MAX_ALTERNATIVES: Final = 64
MAX_COMPONENTS: Final = 32
"""The maximum number of components in an alternative; a larger query is refused (E_TOO_LARGE)."""

EDGES: Final[Mapping[str, Edge]] = {
    "strict": "strict",
    "partition": "strict",
    "next": "next",
    "any": "any",
}
"""The contiguity that each strategy gives to steps that have none."""


@dataclass(frozen=True, slots=True)
class Component:
    """A positive (not negated) component of an alternative.

    `before`: the indexes of all components that precede this one, transitively. `edge`: the
    contiguity of the step into the component. `loop`: the contiguity of the steps inside the group.
    Both are taken from the query's strategy if the step has none; `partition` becomes "strict" with
    `NormalForm.by_partition`. `types` is empty for `_`. `maximum` is UNBOUNDED or a number.

    `own`: the conjuncts that name this alias alone, without an index or an aggregate. Each event of
    the component must satisfy them.

    `until`, `reluctant`, `label`, `hidden`: see syntax.EventNode. `branches`, `beside`: see
    partial_order.Spot.
    """

    index: int
    alias: str
    types: frozenset[str]
    minimum: int
    maximum: int
    before: frozenset[int]
    edge: Edge
    loop: Edge
    greedy: bool
    until: Expr | None
    own: tuple[Expr, ...]
    reluctant: bool = False
    branches: Branches = ()
    beside: int = -1
    label: str = ""
    hidden: bool = False

    @property
    def is_group(self) -> bool:
        return self.maximum != 1

    @property
    def is_optional(self) -> bool:
        return self.minimum == 0


@dataclass(frozen=True, slots=True)
class Blocker:
    """A negation and its gap, the time in which none of its events may occur.

    `left` and `right`: the indexes of the nearest components before and after the gap. An empty
    `left` means that the gap is at the start of the match, an empty `right` that it is at the end.

    If a neighbour is absent from a match, the next component further out takes its place. So the
    gap begins after the last entry of any component at or before `left`. It ends before the first
    entry of any component at or after `right`. Both borders are excluded, and times are corrected
    timestamps. Without a component on the left, the gap begins one window before the last entry of
    the match. Without one on the right, it ends one window after the first entry of the match.
    These two instants are included. If no component is on either side, because the branch of an AND
    is absent, nothing blocks.

    `after`: the ends of earlier negations with FOR, each as components and a time in ns after their
    last entry. The gap begins at the latest of these instants and of the last entry on the left.

    `for_ns`: the length of the gap, both ends excluded, inside the window or not. Without a
    component on the left, the gap is before the first entry on the right. Predicates of the
    alternative keep the entries on the right at least this far from those on the left.

    `limit`: the index of a component and a length in ns. They come from a condition like
    `b.time - a.time < 5 s`. Only events less than this length after the component can block. Only a
    gap at the end of a match has a limit.

    `strict`: only the event directly after the last entry on the left can block, if it is in the
    gap. Without a component on the left, it is the event directly before the first entry on the
    right.

    `predicates`: the conjuncts that name the alias of the negation. A conjunct that also names an
    absent optional component has no effect, unless it tests for NULL (`tests_null`).
    """

    alias: str
    types: frozenset[str]
    left: frozenset[int]
    right: frozenset[int]
    strict: bool
    predicates: tuple[Expr, ...]
    for_ns: int | None = None
    after: tuple[tuple[frozenset[int], int], ...] = ()
    limit: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Predicate:
    """A conjunct over several positive components, or with indexes or aggregates.

    `aliases`: the indexes of the components that it names; empty if it is a constant. `whole`: the
    groups of which it needs all elements, for an aggregate or an index other than [1].

    A conjunct that needs all elements of groups is tested when these groups are closed, by their
    first successor or the end of the match. All others are tested once each component that they
    name is bound or known to be absent. A component is known to be absent when a successor was
    taken. A conjunct over a group is tested for each element taken.

    `skips_absent`: whether it is satisfied if an optional component that it names is absent. It is,
    unless it tests for NULL.
    """

    expr: Expr
    aliases: frozenset[int]
    whole: frozenset[int]
    skips_absent: bool


@dataclass(frozen=True, slots=True)
class Alternative:
    """An alternative of a query: a pattern with one branch of each OR.

    `number`: its position among the alternatives, in the order of the text. `columns`: the columns
    of RETURN, rewritten for this alternative. `branches`: see partial_order.Part.
    """

    number: int
    components: tuple[Component, ...]
    blockers: tuple[Blocker, ...]
    predicates: tuple[Predicate, ...]
    columns: tuple[Column, ...] | None = None
    branches: Branches = ()

    def may_lack(self, components: Iterable[int]) -> bool:
        """Return whether a match may have no event of any of these components."""
        return all(self.components[j].is_optional for j in components)

    @property
    def is_linear(self) -> bool:
        """Whether the components form a plain sequence: each follows all with a smaller index."""
        return all(len(component.before) == component.index for component in self.components)


@dataclass(frozen=True, slots=True)
class NormalForm:
    """A query in the form in which it is evaluated.

    `same`: the paths of the partition key, on which all events agree. They come from `[a, b]`, and
    from chains of equalities over one path that connect all aliases, also negated ones. Conjuncts
    that the key implies are tested nowhere else.

    `by_partition`: whether STRICT considers only the events of the same partition. `node`: the
    pattern with the counts of groups written out. `fingerprint`: the hexadecimal digest of the
    tree.
    """

    query: Query
    node: Node
    alternatives: tuple[Alternative, ...]
    same: tuple[tuple[str, ...], ...]
    by_partition: bool
    fingerprint: str

    @property
    def span_ns(self) -> int:
        """The longest time from the first event of a match to the last event that can prevent it.

        It also limits how long before a match an event can prevent it. It is the window, plus the
        longest FOR at the start or the end of the pattern.
        """
        borders = [
            max([0, *(ns for _, ns in blocker.after)]) + (blocker.for_ns or 0)
            for alternative in self.alternatives
            for blocker in alternative.blockers
            if alternative.may_lack(blocker.left) or alternative.may_lack(blocker.right)
        ]
        return self.query.within_ns + max(borders, default=0)


def describe_excess(node: Node) -> str:
    """Return a description of a pattern that is too large to be expanded, or "" if it is not."""
    alternatives, components = size(node)
    if alternatives <= MAX_ALTERNATIVES and components <= MAX_COMPONENTS:
        return ""
    return (
        f"the pattern has {_format_count(alternatives)} alternatives with up to"
        f" {_format_count(components)}"
        f" components; at most {MAX_ALTERNATIVES} alternatives and {MAX_COMPONENTS} components"
        " are allowed"
    )


def _format_count(number: int) -> str:
    return f"more than {MANY}" if number > MANY else str(number)


def normalise(query: Query) -> NormalForm:
    """Return the normal form of a valid query.

    Raises:
        ValueError: A query that was not checked has too many alternatives or components.
    """
    if too_large := describe_excess(query.node):
        raise ValueError(f"{too_large}; split it into several queries")
    turns = Turns(query.node)
    parts = parts_of(turns.node)
    every = frozenset().union(*map(_aliases_of, parts))
    asked = [
        expr for each in split_conjuncts(query.where) for expr in turns.conditions(each, every)
    ]
    same = find_partition_paths(asked, parts)
    rest = [expr for expr in split_conjuncts(query.where) if not is_implied_by(expr, same)]
    negated = frozenset(gap.negation.alias for part in parts for gap in part.gaps)
    return NormalForm(
        query=query,
        node=turns.node,
        alternatives=tuple(
            _make_alternative(number, part, turns, rest, negated, query)
            for number, part in enumerate(parts)
        ),
        same=same,
        by_partition=query.strategy == "partition" or (query.strategy != "strict" and bool(same)),
        fingerprint=compute_fingerprint(query),
    )


def parts_of(node: Node) -> list[Part]:
    """Return the alternatives of a pattern without counts that have at least one component."""
    return [part for part in spread(node) if part.spots]


def _aliases_of(part: Part) -> frozenset[str]:
    return frozenset([*part.spots, *(gap.negation.alias for gap in part.gaps)])


def has_choice(alternatives: Sequence[Alternative]) -> bool:
    """Return whether a start event may have several matches under MATCHES ALL."""
    if len(alternatives) > 1 or not alternatives[0].is_linear:
        return True
    parts = alternatives[0].components
    return any(not part.minimum == part.maximum == 1 for part in parts) or any(
        part.edge == "any" for part in parts[1:]
    )


def tests_null(expr: Expr) -> bool:
    """Return whether the expression has IS NULL or coalesce.

    Only such an expression can be true of an absent component.
    """
    return any(
        isinstance(part, syntax.IsNull)
        or (isinstance(part, syntax.Call) and part.function == "coalesce")
        for part in walk(expr)
    )


def _make_alternative(
    number: int,
    part: Part,
    turns: Turns,
    asked_of_all: Sequence[Expr],
    negated: frozenset[str],
    query: Query,
) -> Alternative:
    """Return one alternative; `negated` contains the negated aliases of all alternatives."""
    edge, present = EDGES[query.strategy], _aliases_of(part)
    asked = [expr for each in asked_of_all for expr in turns.conditions(each, present)]
    positive = [expr for expr in asked if negated.isdisjoint(find_aliases(expr))]
    index_of = {alias: index for index, alias in enumerate(part.spots)}

    def find_indexes(named: Aliases) -> frozenset[int]:
        return frozenset(index_of[alias] for alias in named)

    components = tuple(
        _make_component(spot, find_indexes(spot.before), index_of, positive, edge)
        for spot in part.spots.values()
    )
    blockers = tuple(
        Blocker(
            alias=gap.negation.alias,
            types=frozenset(gap.negation.types),
            left=find_indexes(gap.left),
            right=find_indexes(gap.right),
            strict=gap.strict,
            for_ns=gap.negation.for_ns,
            after=tuple((find_indexes(named), ns) for named, ns in gap.after),
            limit=min(_find_limits(gap, asked, components), key=lambda it: it[1], default=None),
            predicates=tuple(expr for expr in asked if gap.negation.alias in find_aliases(expr)),
        )
        for gap in part.gaps
    )
    positive += [expr for gap in part.gaps for expr in _make_pauses(part, gap)]
    positive += [expr for spot in part.spots.values() for expr in _make_step_limits(part, spot)]
    columns = query.columns and tuple(turns.column(each, present) for each in query.columns)
    return Alternative(
        number,
        components,
        blockers,
        tuple(_make_predicates(positive, components)),
        columns,
        part.branches,
    )


def _make_pauses(part: Part, gap: NegatedSpot) -> Iterator[Expr]:
    """Yield conditions that no entry follows a negation with FOR before its time is over.

    If a neighbour of the negation may be absent, the conditions cover the entries beyond it too.
    """
    if gap.negation.for_ns is None:
        return
    rights = set(gap.right)
    if any(spot.node.minimum == 0 for spot in part.find_spots(gap.right)):
        rights.update(alias for alias, spot in part.spots.items() if spot.before & gap.right)
    for early, after_ns in ((gap.left, 0), *gap.after):
        lefts = set(early)
        if any(spot.node.minimum == 0 for spot in part.find_spots(early)):
            lefts.update(*(spot.before for spot in part.find_spots(early)))
        for pair in product(part.find_spots(lefts), part.find_spots(rights)):
            left, right = (syntax.Ref(spot.node.alias, ("time",)) for spot in pair)
            apart = syntax.Arithmetic("-", right, left)
            length_ns = syntax.Duration(after_ns + gap.negation.for_ns)
            yield syntax.Compare(">=", apart, length_ns)


def _make_step_limits(part: Part, spot: Spot) -> Iterator[Expr]:
    """Yield conditions for WITHIN on a step and on a loop.

    Each limits the time between an entry and the entry before it.
    """
    alias, is_group = spot.node.alias, spot.node.is_group
    if spot.node.loop_within_ns is not None:
        each, other = (syntax.Ref(alias, ("time",), syntax.Each(k)) for k in (0, -1))
        yield _make_limit(each, other, spot.node.loop_within_ns)
    if spot.within_ns is None or not spot.before:
        return
    first = syntax.Ref(alias, ("time",), syntax.At(1) if is_group else None)
    surely = [one for one in part.find_spots(spot.before) if one.node.minimum > 0]
    behind = frozenset(alias for one in surely for alias in one.before)
    nearest = [one.node for one in part.find_spots(spot.before - behind)]
    lasts = [syntax.Ref(n.alias, ("time",), syntax.At(-1) if n.is_group else None) for n in nearest]
    tests: list[Expr] = [_make_limit(first, last, spot.within_ns) for last in lasts]
    if any(node.minimum == 0 for node in nearest):
        tests.append(syntax.IsNull(first))
        if not surely:
            tests.append(flatten(syntax.And, [syntax.IsNull(last) for last in lasts]))
    yield flatten(syntax.Or, tests)


def _make_limit(late: Expr, early: Expr, within_ns: int) -> Expr:
    return syntax.Compare("<=", syntax.Arithmetic("-", late, early), syntax.Duration(within_ns))


def _find_limits(
    gap: NegatedSpot, asked: Sequence[Expr], components: Sequence[Component]
) -> Iterator[tuple[int, int]]:
    """Yield the limits of a gap at the end of a match (see `Blocker.limit`).

    Optional components yield no limit, because they may be absent. Groups yield none, because they
    have several times.
    """
    single = {c.alias: c.index for c in components if c.minimum == c.maximum == 1}
    alias = gap.negation.alias
    for expr in () if gap.right else asked:
        match expr:
            case syntax.Compare(
                "<" | "<=" as operator,
                syntax.Arithmetic(
                    "-", syntax.Ref(late, ("time",), None), syntax.Ref(early, ("time",), None)
                ),
                syntax.Duration(length_ns),
            ) if late == alias and early in single:
                yield single[early], length_ns + (operator == "<=")


def _make_component(
    spot: Spot,
    before: frozenset[int],
    index_of: Mapping[str, int],
    asked: Sequence[Expr],
    edge: Edge,
) -> Component:
    node = spot.node
    return Component(
        index=index_of[node.alias],
        alias=node.alias,
        types=frozenset(node.types),
        minimum=node.minimum,
        maximum=node.maximum,
        before=before,
        edge=spot.edge or edge,
        loop=node.loop or edge,
        greedy=node.greedy,
        until=node.until,
        own=tuple(expr for expr in asked if _is_own(expr, node)),
        reluctant=node.reluctant,
        branches=spot.branches,
        beside=index_of.get(spot.beside, -1),
        label=node.label,
        hidden=node.hidden,
    )


def _is_own(expr: Expr, node: EventNode) -> bool:
    is_plain = all(mention.how == "plain" for mention in find_mentions(expr))
    return is_plain and find_aliases(expr) == {node.alias}


def _make_predicates(asked: Sequence[Expr], components: Sequence[Component]) -> Iterator[Predicate]:
    index_of = {component.alias: component.index for component in components}
    for expr in asked:
        named = find_aliases(expr)
        skips_absent = not tests_null(expr)
        if skips_absent and not named <= index_of.keys():
            continue
        about = frozenset(index_of[alias] for alias in named if alias in index_of)
        if any(mention.how == "all" for mention in find_mentions(expr)):
            about = frozenset(index_of.values())
        only = components[min(about)] if len(about) == 1 else None
        if only and expr in only.own and (skips_absent or not only.is_optional):
            continue  # The component's own conditions test this already.
        whole = frozenset(index for index in about if _needs_whole_group(expr, components[index]))
        yield Predicate(expr, about, whole, skips_absent)


def _needs_whole_group(expr: Expr, component: Component) -> bool:
    """Return whether the expression needs all elements of the group at once."""
    return component.is_group and any(
        mention.how == "whole" or (mention.how == "at" and mention.number != 1)
        for mention in find_mentions(expr)
        if mention.alias == component.alias
    )


def separate_timed(form: NormalForm) -> NormalForm:
    """Return the form with conditions on one component's time moved from `own` to predicates.

    This is for inexact times. An event may fail such a condition by its corrected timestamp but
    satisfy it by its event time. The indexes depend on `own`, so they would miss this event.
    """
    return replace(form, alternatives=tuple(map(_separate_timed, form.alternatives)))


def _separate_timed(alternative: Alternative) -> Alternative:
    components, predicates = [], list(alternative.predicates)
    for part in alternative.components:
        timed = tuple(e for e in part.own if looks_at_time(e) and not tests_null(e))
        own = tuple(expr for expr in part.own if expr not in timed)
        components.append(replace(part, own=own))
        about = frozenset((part.index,))
        predicates += [Predicate(expr, about, frozenset(), skips_absent=True) for expr in timed]
    return replace(alternative, components=tuple(components), predicates=tuple(predicates))
