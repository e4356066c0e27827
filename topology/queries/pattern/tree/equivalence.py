"""Finds the partition key of a query: the paths on which all events of a match agree.

The paths come from `[a, b]`, and from chains of equalities over one path, like `a.id = b.id AND
b.id = c.id`. A chain must connect all aliases of every alternative, including negated ones.

A chain must stay connected when optional components are absent, because conjuncts that name them
then have no effect. So the equalities must connect all mandatory components with each other. If
there is only one, it must not be a group. Each other alias must be equal to a mandatory one
directly.
"""

from __future__ import annotations

from collections.abc import Sequence

from topology.queries.pattern.tree.partial_order import Part
from topology.queries.pattern.tree.syntax import Compare, Expr, Ref, Same

Path = tuple[str, ...]
Link = tuple[Path, str, str]


def find_partition_paths(conjuncts: Sequence[Expr], parts: Sequence[Part]) -> tuple[Path, ...]:
    """Return the paths of the partition key, in the order in which the conjuncts name them."""
    paths: dict[Path, None] = {}
    links = [link for link in map(_find_link, conjuncts) if link is not None]
    for expr in conjuncts:
        if isinstance(expr, Same):
            paths.update(dict.fromkeys(expr.paths))
        link = _find_link(expr)
        if link is not None and all(_links_all(link[0], links, part) for part in parts):
            paths[link[0]] = None
    return tuple(paths)


def is_implied_by(expr: Expr, paths: Sequence[Path]) -> bool:
    """Return whether a partition key of these paths makes the conjunct redundant."""
    link = _find_link(expr)
    return isinstance(expr, Same) or (link is not None and link[0] in paths)


def _find_link(expr: Expr) -> Link | None:
    match expr:
        case Compare(
            operator="=",
            left=Ref(alias=one, path=path, index=None),
            right=Ref(alias=other, path=same, index=None),
        ) if path == same and one != other:
            return path, one, other
        case _:
            return None


def _links_all(path: Path, links: Sequence[Link], part: Part) -> bool:
    nodes = [spot.node for spot in part.spots.values()]
    present = {node.alias for node in nodes if node.minimum > 0}
    others = {node.alias for node in nodes} | {gap.negation.alias for gap in part.gaps}
    others -= present
    if not present or len(present | others) == 1:
        return False
    if len(present) == 1 and any(node.is_group for node in nodes if node.alias in present):
        return False
    next_to: dict[str, set[str]] = {}
    for on, one, other in links:
        if on == path:
            next_to.setdefault(one, set()).add(other)
            next_to.setdefault(other, set()).add(one)
    reached: set[str] = set()
    ahead = [min(present)]
    while ahead:
        alias = ahead.pop()
        reached.add(alias)
        ahead += next_to.get(alias, set()) & present - reached
    if reached != present:
        return False
    return all(next_to.get(alias, set()) & present for alias in others)
