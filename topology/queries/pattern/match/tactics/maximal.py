"""Selects the matches of an end event that no other match of their alternative contains.

Matches are compared as sets of events labelled with their component.

Cost: O(members) operations on bit sets for each match, with one bit for each selected match.
"""

from __future__ import annotations

from topology.queries.pattern.match.match import Match
from topology.queries.pattern.store.entry import Key

Member = tuple[int, Key]


def select_maximal(matches: list[Match]) -> list[Match]:
    """Return the maximal matches of one alternative and end event, in their given order."""
    sets = [_members_of(match) for match in matches]
    by_size = sorted(range(len(matches)), key=lambda at: -len(sets[at]))
    # Maps a member to the selected matches that contain it, as bits.
    holders: dict[Member, int] = {}
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
    """Return whether a selected match has all of the members.

    Such a match is then larger, because no two matches are equal.
    """
    common = -1
    for member in members:
        common &= holders.get(member, 0)
        if not common:
            return False
    return True


def _members_of(match: Match) -> list[Member]:
    return [(j, entry.key) for j, entries in enumerate(match.bound) for entry in entries]
