"""After-match skip: what a kept match drops. The choice is made by `run.decide`.

Matches sorted by (start, end) are kept or dropped one after the other: TO NEXT drops
others with the start of a kept one, PAST LAST those that start at or before a kept one's end,
TO FIRST/LAST v those that start before that event of v. So what was kept last decides about
what follows, and what is final needs no more looking at than its `Barrier`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from topology.pattern.match.match import Match
from topology.pattern.store.entry import Key

BEFORE_ALL: Key = (-(1 << 63), "", -1, -1)


class Barrier:
    """Matches that start before `key`, or with it, are dropped."""

    __slots__ = ("includes", "key")

    def __init__(self, key: Key = BEFORE_ALL, includes: bool = False) -> None:
        self.key = key
        self.includes = includes

    def drops(self, match: Match) -> bool:
        start = match.first.key
        return start < self.key or (self.includes and start == self.key)

    def is_like(self, other: Barrier) -> bool:
        return self.key == other.key and self.includes == other.includes

    def behind(self, other: Barrier) -> Barrier:
        """The one of the two that drops more."""
        return self if (self.key, self.includes) >= (other.key, other.includes) else other


def after(match: Match, mode: str, components: Sequence[int], end_ns: int) -> Barrier:
    """What a kept match drops of those that follow it. `components`: those of SKIP TO's alias;
    `end_ns`: when the match is over, be it an absence for a time that ends it."""
    if mode == "past_last":
        if end_ns > match.last.time_ns:
            return Barrier((end_ns + 1, "", -1, -1))
        return Barrier(match.last.key, includes=True)
    if mode == "next":
        return Barrier(match.first.key, includes=True)
    keys = [entry.key for component in components for entry in match.bound[component]]
    if not keys:
        return Barrier()
    return Barrier(min(keys) if mode == "first" else max(keys))


def place(match: Match) -> Any:
    """Its place among all matches of a run, in the order in which they are looked at."""
    return (match.first.key, match.last.key, match.content)
