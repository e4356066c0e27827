"""Which of the matches of an end event are contained in no other of their alternative.

Matches are compared as sets of events labelled with their component.

Cost: O(members) for each match, an operation being one over a bit for each match that is kept.
"""

from __future__ import annotations

from topology.pattern.match.match import Match
from topology.pattern.store.entry import Key

Member = tuple[int, Key]


def maximal(matches: list[Match]) -> list[Match]:
    """Those of one alternative with one end event, in the order they came in."""
    sets = [_members(match) for match in matches]
    by_size = sorted(range(len(matches)), key=lambda at: -len(sets[at]))
    holders: dict[Member, int] = {}  # the kept ones, as bits, that hold it
    kept: list[int] = []
    for at in by_size:
        if _is_contained(sets[at], holders):
            continue
        bit = 1 << len(kept)
        kept.append(at)
        for member in sets[at]:
            holders[member] = holders.get(member, 0) | bit
    return [matches[at] for at in sorted(kept)]


def _is_contained(members: list[Member], holders: dict[Member, int]) -> bool:
    """Whether a kept one holds all of the members; it is larger, as no two are alike."""
    common = -1
    for member in members:
        common &= holders.get(member, 0)
        if not common:
            return False
    return True


def _members(match: Match) -> list[Member]:
    return [(j, entry.key) for j, entries in enumerate(match.bound) for entry in entries]
