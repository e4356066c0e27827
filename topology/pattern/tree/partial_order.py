"""A pattern without OR: its components, which of them come before which, and the gaps.

Source: patterns.md 2.1. OR is distributed in the order of the text; SEQ orders all of its left
before all of its right; AND orders nothing.

- An edge before a compound is that of each of its first components, unless these have one of
  their own. One before an optional component goes with it when it is absent.
- A negation at a border of a compound has its neighbour outside, in the SEQ around it; if
  there is none, it is at the start or the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

from topology.pattern.tree.syntax import AllOf, AnyOf, Edge, EventNode, Item, Negation, Node, Seq


@dataclass(frozen=True, slots=True)
class Spot:
    """A component. `before`: those (by index) that come before it. `branches`: which branch was
    taken of each OR that begins with it, from the outermost on, but for ORs in an AND."""

    node: EventNode
    edge: Edge | None
    before: frozenset[int]
    branches: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class NegatedSpot:
    """`left` and `right` are the nearest components; empty where there are none so far."""

    negation: Negation
    strict: bool
    left: frozenset[int]
    right: frozenset[int]


@dataclass(frozen=True, slots=True)
class Part:
    """`first` and `last`: the components that none in the part comes before, or behind."""

    spots: tuple[Spot, ...]
    gaps: tuple[NegatedSpot, ...]
    first: frozenset[int]
    last: frozenset[int]


def size(node: Node) -> tuple[int, int]:
    """How many alternatives there are, and components in the largest of them."""
    match node:
        case EventNode():
            return 1, 1
        case AnyOf(nodes=nodes):
            counts, largest = zip(*map(size, nodes), strict=True)
            return sum(counts), max(largest)
        case AllOf(nodes=nodes):
            inner: Sequence[Node] = nodes
        case Seq(items=items):
            inner = [item.node for item in items if not isinstance(item.node, Negation)]
    alternatives, components = 1, 0
    for part in inner:
        count, most = size(part)
        alternatives *= count
        components += most
    return alternatives, components


def spread(node: Node) -> list[Part]:
    """The alternatives. Their number is that of `size`."""
    match node:
        case EventNode():
            only = frozenset({0})
            return [Part((Spot(node, None, frozenset()),), (), only, only)]
        case AnyOf(nodes=nodes):
            return [
                _branched(part, number)
                for number, branch in enumerate(nodes)
                for part in spread(branch)
            ]
        case AllOf(nodes=nodes):
            return [_side_by_side(parts) for parts in product(*map(spread, nodes))]
        case Seq(items=items):
            return [_in_a_row(parts) for parts in product(*map(_choices, items))]


def _choices(item: Item) -> Sequence[Part | NegatedSpot]:
    if isinstance(item.node, Negation):
        return [NegatedSpot(item.node, item.edge == "strict", frozenset(), frozenset())]
    return [_entered(part, item.edge) for part in spread(item.node)]


def _branched(part: Part, number: int) -> Part:
    first, *rest = part.spots
    return replace(part, spots=(replace(first, branches=(number, *first.branches)), *rest))


def _entered(part: Part, edge: Edge | None) -> Part:
    if edge is None:
        return part
    spots = [
        replace(spot, edge=spot.edge or edge) if index in part.first else spot
        for index, spot in enumerate(part.spots)
    ]
    return replace(part, spots=tuple(spots))


def _side_by_side(parts: Sequence[Part]) -> Part:
    whole = Part((), (), frozenset(), frozenset())
    for part in parts:
        part = _shifted(part, len(whole.spots))
        whole = Part(
            whole.spots + tuple(replace(spot, branches=()) for spot in part.spots),
            whole.gaps + part.gaps,
            whole.first | part.first,
            whole.last | part.last,
        )
    return whole


def _in_a_row(parts: Sequence[Part | NegatedSpot]) -> Part:
    spots: list[Spot] = []
    gaps: list[NegatedSpot] = []
    first: frozenset[int] = frozenset()
    last: frozenset[int] = frozenset()
    for part in parts:
        if isinstance(part, NegatedSpot):
            gaps.append(replace(part, left=last))
            continue
        part = _shifted(part, len(spots))
        earlier = frozenset(range(len(spots)))
        gaps = [replace(gap, right=gap.right or part.first) for gap in gaps]
        gaps += [replace(gap, left=gap.left or last) for gap in part.gaps]
        spots += [replace(spot, before=spot.before | earlier) for spot in part.spots]
        first, last = first or part.first, part.last
    return Part(tuple(spots), tuple(gaps), first, last)


def _shifted(part: Part, by: int) -> Part:
    def move(indexes: frozenset[int]) -> frozenset[int]:
        return frozenset(index + by for index in indexes)

    return Part(
        tuple(replace(spot, before=move(spot.before)) for spot in part.spots),
        tuple(replace(gap, left=move(gap.left), right=move(gap.right)) for gap in part.gaps),
        move(part.first),
        move(part.last),
    )
