"""Determines which matches an accepted match drops by SKIP; `run.selection` applies it.

Matches sorted by (start, end) are accepted or dropped one after the other. TO NEXT drops other
matches with the start of an accepted match. PAST LAST drops those that start at or before its end.
TO FIRST/LAST v drops those that start before that event of v.

So an accepted match affects all following ones only through one bound, its `Barrier`. For final
matches this barrier is the only state needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from topology.queries.pattern.match.match import Match
from topology.queries.pattern.store.entry import Key

BEFORE_ALL: Key = (-(1 << 63), "", -1, -1)


class Barrier(NamedTuple):
    """A bound on the starts of matches: SKIP drops those that start before `key`.

    `includes`: whether SKIP also drops those that start with `key`. The larger of two barriers
    drops more.
    """

    key: Key = BEFORE_ALL
    includes: bool = False

    def drops(self, match: Match) -> bool:
        start = match.first.key
        return start < self.key or (self.includes and start == self.key)


def barrier_after(match: Match, mode: str, components: Sequence[int], end_ns: int) -> Barrier:
    """Return the barrier that an accepted match sets for the matches that follow it.

    `components` are those of SKIP TO's alias. `end_ns` is the end of the match, which may be the
    end of a timed absence.
    """
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
    """Return the sort key that gives the order in which SKIP examines matches."""
    return (match.first.key, match.last.key, match.content)
