"""Spreads a pattern into alternatives without OR: the components, their order, and the gaps.

OR is distributed in the order of the text. SEQ orders everything on its left before everything on
its right. AND orders nothing.

- An edge before a compound belongs to each of its first components, unless one has its own edge.
  An edge before an optional component is absent together with it.
- A negation in an AND begins with the AND, and ends when its FOR is over. A negation in an OR is
  the alternative in which no other branch happens, and has no event.
- A negation at a border of a compound has its neighbour outside, in the SEQ around it. Without
  such a neighbour it is at the start or the end.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Final

from topology.pattern.tree.syntax import (
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
"""The numbers of the branches taken; OVER stands for an AND that took nothing."""

Aliases = frozenset[str]
"""Components by their aliases, which are all different."""

Since = tuple[tuple[Aliases, int], ...]
"""An instant: the latest of several.

Each is a set of components and a time in ns after the last of them. An empty set stands for the
instant at which the part begins.
"""

BEGIN: Final[Since] = ((frozenset(), 0),)

OVER: Final = (1, 0)
"""The choice that ends an AND (`match.preference`)."""


@dataclass(frozen=True, slots=True)
class Spot:
    """A component and its place.

    `before`: the components that come before it. `branches`: the branch taken of each OR that
    begins with it, from the outermost on, without ORs in an AND. The branches of ORs right before
    it that took nothing precede these. `beside`: the first component of the outermost AND around
    it, or empty. `within_ns`: see Item.
    """

    node: EventNode
    edge: Edge | None = None
    before: Aliases = frozenset()
    branches: Branches = ()
    within_ns: int | None = None
    beside: str = ""


@dataclass(frozen=True, slots=True)
class NegatedSpot:
    """A negation and its place.

    `left` and `right` are the nearest components, empty if there are none so far. `beside`: it is
    one of the parts of an AND. `since`: the instant when everything before it is over, FORs
    included.
    """

    negation: Negation
    strict: bool = False
    left: Aliases = frozenset()
    right: Aliases = frozenset()
    beside: bool = False
    since: Since = BEGIN

    @property
    def after(self) -> Since:
        """The ends of FORs: the instants of `since` later than the last event on the left."""
        return tuple((at, ns) for at, ns in self.since if at and ns)


@dataclass(frozen=True, slots=True)
class Part:
    """A way through a part of the pattern.

    `spots`: its components by their aliases, in order. `first` and `last`: the components that have
    none of the part before them, or after them. `branches`: those of ORs after the last component
    that took nothing. `over`: the instant when the part is over.
    """

    spots: Mapping[str, Spot] = field(default_factory=dict)
    gaps: tuple[NegatedSpot, ...] = ()
    first: Aliases = frozenset()
    last: Aliases = frozenset()
    branches: Branches = ()
    over: Since = BEGIN

    def among(self, aliases: Collection[str]) -> list[Spot]:
        """Return the components with these aliases, in order."""
        return [spot for alias, spot in self.spots.items() if alias in aliases]


def size(node: Node | Negation) -> tuple[int, int]:
    """Return the number of alternatives, and of components in the largest of them."""
    match node:
        case EventNode() | Negation():
            return 1, int(isinstance(node, EventNode))
        case AnyOf(nodes=nodes):
            counts, largest = zip(*map(size, nodes), strict=True)
            return sum(counts), max(largest)
        case CountedNode():
            return _size_of_turns(node)
    alternatives, components = 1, 0
    for part in node.children:
        count, most = size(part)
        alternatives *= count
        components += most
    return alternatives, components


MANY: Final = 10_000
"""The number of turns, and of ways through them, at which counting stops."""


def _size_of_turns(counted: CountedNode) -> tuple[int, int]:
    ways, most = size(counted.node)
    turns = min(max(counted.maximum, 1), MANY)
    alternatives = 0
    for turn in range(max(0, counted.minimum), turns + 1):
        alternatives += min(ways, MANY) ** min(turn, 14)
        if alternatives > MANY:
            break
    return max(1, alternatives), most * turns


def spread(node: Node | Negation) -> list[Part]:
    """Return the alternatives of a tree without counts of groups (`topology.pattern.tree.turns`).

    Their number is that of `size`. A negation as a branch of an OR has no component.
    """
    match node:
        case Negation():
            return [Part(gaps=(NegatedSpot(node),), over=_later(BEGIN, node.for_ns or 0))]
        case EventNode(alias=alias):
            only = frozenset({alias})
            over: Since = ((only, 0), *(() if node.minimum else BEGIN))
            return [Part({alias: Spot(node)}, (), only, only, over=over)]
        case AnyOf(nodes=nodes):
            return [
                _branched(part, number)
                for number, branch in enumerate(nodes)
                for part in spread(branch)
            ]
        case AllOf(nodes=nodes):
            return [_side_by_side(parts) for parts in product(*map(_choices, map(Item, nodes)))]
        case Seq(items=items):
            return [_in_a_row(parts) for parts in product(*map(_choices, items))]
        case CountedNode():
            raise TypeError("a count of a group is written out first")


def _choices(item: Item) -> Sequence[Part | NegatedSpot]:
    """Return the parts that an item of a SEQ or a node of an AND can be."""
    if isinstance(item.node, Negation):
        return [NegatedSpot(item.node, item.edge == "strict")]
    return [_entered(part, item) for part in spread(item.node)]


def _branched(part: Part, *numbers: int | tuple[int, int]) -> Part:
    """Return the part with the branches that were taken before it."""
    if not part.spots:
        return replace(part, branches=(*numbers, *part.branches))
    alias, first = next(iter(part.spots.items()))
    begin = replace(first, branches=(*numbers, *first.branches))
    return replace(part, spots={**part.spots, alias: begin})


def _entered(part: Part, item: Item) -> Part:
    entered = {
        alias: replace(
            spot, edge=spot.edge or item.edge, within_ns=spot.within_ns or item.within_ns
        )
        for alias, spot in part.spots.items()
        if alias in part.first
    }
    return replace(part, spots={**part.spots, **entered})


def _side_by_side(parts: Sequence[Part | NegatedSpot]) -> Part:
    """Combine the parts of an AND.

    A negation without FOR is over with the one part that happens.
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


def _in_a_row(parts: Sequence[Part | NegatedSpot]) -> Part:
    spots: dict[str, Spot] = {}
    gaps: list[NegatedSpot] = []
    first: Aliases = frozenset()
    last: Aliases = frozenset()
    branches: Branches = ()
    over = BEGIN
    for part in parts:
        if isinstance(part, NegatedSpot):
            gaps.append(replace(part, left=last, since=over))
            over = _later(over, part.negation.for_ns or 0)
            continue
        part = _branched(part, *branches)
        branches = part.branches
        if part.spots:
            gaps = [replace(gap, right=gap.right or part.first) for gap in gaps]
        gaps += [
            replace(gap, left=gap.left or last, since=_placed(gap.since, over)) for gap in part.gaps
        ]
        spots |= {
            alias: replace(spot, before=spot.before.union(spots))
            for alias, spot in part.spots.items()
        }
        first, last = first or part.first, part.last or last
        over = _placed(part.over, over)
    return Part(spots, tuple(gaps), first, last, branches, over)


def _later(since: Since, by_ns: int) -> Since:
    return tuple((at, ns + by_ns) for at, ns in since)


def _placed(since: Since, begin: Since) -> Since:
    """Return an instant within a part that begins at `begin`."""
    found: dict[Aliases, int] = {}
    for at, ns in since:
        for own, own_ns in ((at, ns),) if at else _later(begin, ns):
            found[own] = max(own_ns, found.get(own, 0))
    return tuple(found.items())
