"""A pattern without OR: its components, which of them come before which, and the gaps.

OR is distributed in the order of the text; SEQ orders all of its left
before all of its right; AND orders nothing.

- An edge before a compound is that of each of its first components, unless these have one of
  their own. One before an optional component goes with it when it is absent.
- A negation in an AND begins with it, and ends when its FOR is over. One in an OR is what comes
  to pass where no branch does: it holds no event.
- A negation at a border of a compound has its neighbour outside, in the SEQ around it; if
  there is none, it is at the start or the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
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
"""Numbers, and OVER for an AND that took nothing."""

Since = tuple[tuple[frozenset[int], int], ...]
"""Sets of components, each with a time in ns after the last of them: the latest of these instants.
A set of none stands for the instant at which the part begins."""

BEGIN: Final[Since] = ((frozenset(), 0),)

OVER: Final = (1, 0)
"""The choice that ends an AND (`match.preference`)."""


@dataclass(frozen=True, slots=True)
class Spot:
    """A component. `before`: those (by index) that come before it. `branches`: which branch was
    taken of each OR that begins with it, from the outermost on, but for ORs in an AND; before
    these, of each that took nothing right before it. `beside`: the first component of the outermost
    AND that it is in; -1 without. `within_ns`: see Item."""

    node: EventNode
    edge: Edge | None
    before: frozenset[int]
    branches: Branches = ()
    within_ns: int | None = None
    beside: int = -1


@dataclass(frozen=True, slots=True)
class NegatedSpot:
    """`left` and `right` are the nearest components; empty where there are none so far. `beside`:
    it is one of the parts of an AND. `since`: when what comes before it is over, FORs as well."""

    negation: Negation
    strict: bool = False
    left: frozenset[int] = frozenset()
    right: frozenset[int] = frozenset()
    beside: bool = False
    since: Since = BEGIN

    @property
    def after(self) -> Since:
        """What of `since` is later than the last event on the left: where FORs end."""
        return tuple((at, ns) for at, ns in self.since if at and ns)


@dataclass(frozen=True, slots=True)
class Part:
    """`first` and `last`: the components that none in the part comes before, or behind.
    `branches`: of ORs behind the last component that took nothing. `over`: when the part is."""

    spots: tuple[Spot, ...]
    gaps: tuple[NegatedSpot, ...]
    first: frozenset[int] = frozenset()
    last: frozenset[int] = frozenset()
    branches: Branches = ()
    over: Since = BEGIN


def size(node: Node | Negation) -> tuple[int, int]:
    """How many alternatives there are, and components in the largest of them."""
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
"""Turns of a group and ways through them, beyond which nobody counts."""


def _size_of_turns(counted: CountedNode) -> tuple[int, int]:
    ways, most = size(counted.node)
    turns = min(max(counted.maximum, 1), MANY)
    alternatives = 0
    for turn in range(counted.minimum, turns + 1):
        alternatives += min(ways, MANY) ** min(turn, 14)
        if alternatives > MANY:
            break
    return max(1, alternatives), most * turns


def spread(node: Node | Negation) -> list[Part]:
    """The alternatives of a tree without counts of groups (`topology.pattern.tree.turns`). Their
    number is that of `size`. A negation, as a branch of an OR, holds no component."""
    match node:
        case Negation():
            return [Part((), (NegatedSpot(node),), over=_later(BEGIN, node.for_ns or 0))]
        case EventNode():
            only = frozenset({0})
            over: Since = ((only, 0), *(() if node.minimum else BEGIN))
            return [Part((Spot(node, None, frozenset()),), (), only, only, over=over)]
        case AnyOf(nodes=nodes):
            return [
                _branched(part, number)
                for number, branch in enumerate(nodes)
                for part in spread(branch)
            ]
        case AllOf(nodes=nodes):
            return [_side_by_side(parts) for parts in product(*map(_parts, nodes))]
        case Seq(items=items):
            return [_in_a_row(parts) for parts in product(*map(_choices, items))]
        case CountedNode():
            raise TypeError("a count of a group is written out first")


def _choices(item: Item) -> Sequence[Part | NegatedSpot]:
    if isinstance(item.node, Negation):
        return [NegatedSpot(item.node, item.edge == "strict")]
    return [_entered(part, item) for part in spread(item.node)]


def _parts(node: Node | Negation) -> Sequence[Part | NegatedSpot]:
    """Those of an AND."""
    return [NegatedSpot(node, beside=True)] if isinstance(node, Negation) else spread(node)


def _branched(part: Part, *numbers: int | tuple[int, int]) -> Part:
    """With the branches that were taken ahead of it."""
    if not part.spots:
        return replace(part, branches=(*numbers, *part.branches))
    first, *rest = part.spots
    return replace(part, spots=(replace(first, branches=(*numbers, *first.branches)), *rest))


def _entered(part: Part, item: Item) -> Part:
    edge, within_ns = item.edge, item.within_ns
    if edge is None and within_ns is None:
        return part
    spots = [
        replace(spot, edge=spot.edge or edge, within_ns=within_ns) if index in part.first else spot
        for index, spot in enumerate(part.spots)
    ]
    return replace(part, spots=tuple(spots))


def _side_by_side(parts: Sequence[Part | NegatedSpot]) -> Part:
    """A negation without FOR is over with the one part that happens."""
    positive = [part for part in parts if isinstance(part, Part)]
    first = frozenset(at for part in positive for at in part.first)
    gaps = [
        replace(part, right=frozenset() if part.negation.for_ns else first)
        for part in parts
        if isinstance(part, NegatedSpot)
    ]
    lasting = [(frozenset[int](), gap.negation.for_ns) for gap in gaps if gap.negation.for_ns]
    whole = Part((), tuple(gaps), over=tuple(lasting))
    for part in positive:
        part = _shifted(part, len(whole.spots))
        if not part.spots:
            part = replace(part, gaps=tuple(replace(gap, beside=True) for gap in part.gaps))
        whole = Part(
            whole.spots + tuple(replace(spot, branches=(), beside=0) for spot in part.spots),
            whole.gaps + part.gaps,
            whole.first | part.first,
            whole.last | part.last,
            over=whole.over + part.over,
        )
    return whole if whole.spots else replace(whole, branches=(OVER,))


def _in_a_row(parts: Sequence[Part | NegatedSpot]) -> Part:
    spots: list[Spot] = []
    gaps: list[NegatedSpot] = []
    first: frozenset[int] = frozenset()
    last: frozenset[int] = frozenset()
    branches: Branches = ()
    over = BEGIN
    for part in parts:
        if isinstance(part, NegatedSpot):
            gaps.append(replace(part, left=last, since=over))
            over = _later(over, part.negation.for_ns or 0)
            continue
        part = _shifted(_branched(part, *branches), len(spots))
        branches = part.branches
        if part.spots:
            gaps = [replace(gap, right=gap.right or part.first) for gap in gaps]
        gaps += [
            replace(gap, left=gap.left or last, since=_placed(gap.since, over)) for gap in part.gaps
        ]
        earlier = frozenset(range(len(spots)))
        spots += [replace(spot, before=spot.before | earlier) for spot in part.spots]
        first, last = first or part.first, part.last or last
        over = _placed(part.over, over)
    return Part(tuple(spots), tuple(gaps), first, last, branches, over)


def _later(since: Since, by_ns: int) -> Since:
    return tuple((at, ns + by_ns) for at, ns in since)


def _placed(since: Since, begin: Since) -> Since:
    """Return an instant within a part that begins at `begin`."""
    found: dict[frozenset[int], int] = {}
    for at, ns in since:
        for own, own_ns in ((at, ns),) if at else _later(begin, ns):
            found[own] = max(own_ns, found.get(own, 0))
    return tuple(found.items())


def _shifted(part: Part, by: int) -> Part:
    def move(indexes: frozenset[int]) -> frozenset[int]:
        return frozenset(index + by for index in indexes)

    def moved(since: Since) -> Since:
        return tuple((move(at), ns) for at, ns in since)

    return Part(
        tuple(
            replace(
                spot,
                before=move(spot.before),
                beside=spot.beside + by if spot.beside >= 0 else spot.beside,
            )
            for spot in part.spots
        ),
        tuple(
            replace(gap, left=move(gap.left), right=move(gap.right), since=moved(gap.since))
            for gap in part.gaps
        ),
        move(part.first),
        move(part.last),
        part.branches,
        moved(part.over),
    )
