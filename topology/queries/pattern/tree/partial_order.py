"""Expands a pattern into alternatives without OR, with their components, their order, and the gaps.

Each alternative takes one branch of each OR, in the order of the text. SEQ places its parts one
after the other. AND sets no order.

- A contiguity before a compound belongs to each of its first components that has none. If an
  optional component is absent, so is the contiguity before it.
- A negation in an AND begins with the AND, and ends when its FOR is over. A negation in an OR is
  the alternative in which no other branch occurs; it has no event.
- A negation at a border of a compound has its neighbour outside, in the SEQ around it. Without
  such a neighbour it is at the start or the end of the match.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Final

from topology.queries.pattern.tree.syntax import (
    AllOf,
    AnyOf,
    CountedNode,
    Edge,
    EventNode,
    Item,
    Negation,
    Node,
    Seq,
)

Branches = tuple[int | tuple[int, int], ...]
"""The numbers of the branches that were taken; OVER stands for an AND that has no event."""

Aliases = frozenset[str]
"""Components, given by their aliases, which are all different."""

Since = tuple[tuple[Aliases, int], ...]
"""An instant, given as the latest of several.

Each entry has a set of components, and a time in ns after the last event of these. An empty set
stands for the instant at which the part begins.
"""

BEGIN: Final[Since] = ((frozenset(), 0),)

OVER: Final = (1, 0)
"""The entry of `Branches` for the end of an AND (see `match.preference`)."""


@dataclass(frozen=True, slots=True)
class Spot:
    """A component and its place in the pattern.

    `before`: the components that precede it. `branches`: the branches taken of ORs, without ORs in
    an AND. First come the ORs directly before the component whose branches have no event. Then come
    those that begin with the component, from the outermost to the innermost. `beside`: the first
    component of the outermost AND around it, or an empty string. `within_ns`: see Item.
    """

    node: EventNode
    edge: Edge | None = None
    before: Aliases = frozenset()
    branches: Branches = ()
    within_ns: int | None = None
    beside: str = ""


@dataclass(frozen=True, slots=True)
class NegatedSpot:
    """A negation and its place in the pattern.

    `left` and `right`: the nearest components before and after it, empty if none were found yet.
    `beside`: whether it is one of the parts of an AND. `since`: the instant when everything before
    it is over, including earlier FORs.
    """

    negation: Negation
    strict: bool = False
    left: Aliases = frozenset()
    right: Aliases = frozenset()
    beside: bool = False
    since: Since = BEGIN

    @property
    def after(self) -> Since:
        """The ends of earlier FORs: the instants of `since` that are after an event on the left."""
        return tuple((at, ns) for at, ns in self.since if at and ns)


@dataclass(frozen=True, slots=True)
class Part:
    """An alternative of a part of the pattern.

    `spots`: its components by their aliases, in order. `gaps`: its negations. `first` and `last`:
    its components that no other of its components precedes, or follows. `branches`: the branches
    taken of ORs after the last component, which have no event. `over`: the instant when the part is
    over.
    """

    spots: Mapping[str, Spot] = field(default_factory=dict)
    gaps: tuple[NegatedSpot, ...] = ()
    first: Aliases = frozenset()
    last: Aliases = frozenset()
    branches: Branches = ()
    over: Since = BEGIN

    def find_spots(self, aliases: Collection[str]) -> list[Spot]:
        """Return the components with these aliases, in the order of the part."""
        return [spot for alias, spot in self.spots.items() if alias in aliases]


def size(node: Node | Negation) -> tuple[int, int]:
    """Return the number of alternatives, and the number of components in the largest one.

    Counts stop at MANY + 1, so that no count of a hostile query grows without bound.
    """
    match node:
        case EventNode() | Negation():
            return 1, int(isinstance(node, EventNode))
        case AnyOf(nodes=nodes):
            counts, largest = zip(*map(size, nodes), strict=True)
            return min(sum(counts), MANY + 1), max(largest)
        case CountedNode():
            return _size_of_turns(node)
    alternatives, components = 1, 0
    for part in node.children:
        count, most = size(part)
        alternatives = min(alternatives * count, MANY + 1)
        components = min(components + most, MANY + 1)
    return alternatives, components


MANY: Final = 10_000
"""The number of turns, alternatives or components up to which `size` counts."""


def _size_of_turns(counted: CountedNode) -> tuple[int, int]:
    ways, most = size(counted.node)
    turns = min(max(counted.maximum, 1), MANY)
    first = max(0, counted.minimum)
    alternatives = turns - first + 1 if ways == 1 else 0
    for turn in range(first, turns + 1 if ways > 1 else 0):
        alternatives += ways ** min(turn, 14)
        if alternatives > MANY:
            break
    return min(max(1, alternatives), MANY + 1), min(most * turns, MANY + 1)


def spread(node: Node | Negation) -> list[Part]:
    """Return the alternatives of a tree in which `tree.turns` has written out the counts.

    `size` returns their number. A negation that is a branch of an OR becomes an alternative without
    components.
    """
    match node:
        case Negation():
            return [Part(gaps=(NegatedSpot(node),), over=_delay(BEGIN, node.for_ns or 0))]
        case EventNode(alias=alias):
            only = frozenset({alias})
            over: Since = ((only, 0), *(() if node.minimum else BEGIN))
            return [Part({alias: Spot(node)}, (), only, only, over=over)]
        case AnyOf(nodes=nodes):
            return [
                _add_branches(part, number)
                for number, branch in enumerate(nodes)
                for part in spread(branch)
            ]
        case AllOf(nodes=nodes):
            return [
                _combine_unordered(parts) for parts in product(*map(_expand_item, map(Item, nodes)))
            ]
        case Seq(items=items):
            return [_combine_ordered(parts) for parts in product(*map(_expand_item, items))]
        case CountedNode():
            raise TypeError("a count of a group must be written out first")


def _expand_item(item: Item) -> Sequence[Part | NegatedSpot]:
    """Return the alternatives of an item of a SEQ, or of a node of an AND."""
    if isinstance(item.node, Negation):
        return [NegatedSpot(item.node, item.edge == "strict")]
    return [_apply_item(part, item) for part in spread(item.node)]


def _add_branches(part: Part, *numbers: int | tuple[int, int]) -> Part:
    """Return the part with the numbers of earlier branches put before its own."""
    if not part.spots:
        return replace(part, branches=(*numbers, *part.branches))
    alias, first = next(iter(part.spots.items()))
    begin = replace(first, branches=(*numbers, *first.branches))
    return replace(part, spots={**part.spots, alias: begin})


def _apply_item(part: Part, item: Item) -> Part:
    entered = {
        alias: replace(
            spot, edge=spot.edge or item.edge, within_ns=spot.within_ns or item.within_ns
        )
        for alias, spot in part.spots.items()
        if alias in part.first
    }
    return replace(part, spots={**part.spots, **entered})


def _combine_unordered(parts: Sequence[Part | NegatedSpot]) -> Part:
    """Combine the parts of an AND into one part.

    A negation without FOR ends with the first event of the only other part.
    """
    positive = [part for part in parts if isinstance(part, Part)]
    first = frozenset(alias for part in positive for alias in part.first)
    gaps = [
        replace(part, beside=True, right=frozenset() if part.negation.for_ns else first)
        for part in parts
        if isinstance(part, NegatedSpot)
    ]
    over = [(Aliases(), gap.negation.for_ns) for gap in gaps if gap.negation.for_ns]
    spots: dict[str, Spot] = {}
    for part in positive:
        spots |= part.spots
        gaps += part.gaps if part.spots else [replace(gap, beside=True) for gap in part.gaps]
        over += part.over
    begin = next(iter(spots), "")
    return Part(
        {alias: replace(spot, branches=(), beside=begin) for alias, spot in spots.items()},
        tuple(gaps),
        first,
        frozenset(alias for part in positive for alias in part.last),
        branches=() if spots else (OVER,),
        over=tuple(over),
    )


def _combine_ordered(parts: Sequence[Part | NegatedSpot]) -> Part:
    spots: dict[str, Spot] = {}
    gaps: list[NegatedSpot] = []
    first: Aliases = frozenset()
    last: Aliases = frozenset()
    branches: Branches = ()
    over = BEGIN
    for part in parts:
        if isinstance(part, NegatedSpot):
            gaps.append(replace(part, left=last, since=over))
            over = _delay(over, part.negation.for_ns or 0)
            continue
        part = _add_branches(part, *branches)
        branches = part.branches
        if part.spots:
            gaps = [replace(gap, right=gap.right or part.first) for gap in gaps]
        gaps += [
            replace(gap, left=gap.left or last, since=_place(gap.since, over)) for gap in part.gaps
        ]
        spots |= {
            alias: replace(spot, before=spot.before.union(spots))
            for alias, spot in part.spots.items()
        }
        first, last = first or part.first, part.last or last
        over = _place(part.over, over)
    return Part(spots, tuple(gaps), first, last, branches, over)


def _delay(since: Since, by_ns: int) -> Since:
    return tuple((at, ns + by_ns) for at, ns in since)


def _place(since: Since, begin: Since) -> Since:
    """Return the instant `since` of a part, with the part's beginning replaced by `begin`."""
    found: dict[Aliases, int] = {}
    for at, ns in since:
        for own, own_ns in ((at, ns),) if at else _delay(begin, ns):
            found[own] = max(own_ns, found.get(own, 0))
    return tuple(found.items())
