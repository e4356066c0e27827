"""Applies SKIP to the visible matches of a run, again from the first changed one.

SKIP (`topology.queries.pattern.match.skip`) examines the visible matches in the order of their
starts, and then of their ends; results are emitted in another order (`match_results`). Each match
is kept here with the barrier after it. After a change, SKIP is applied again from the first
changed match on. It stops after the last changed match, at the first match whose barrier stays the
same. So an event out of order may retract or bring back matches at any distance after it, in units
that were not evaluated again. It never reaches decided matches (`Compiled.decided_ns`).

Cost of a change: O(log n) and a move of references for each match added or removed, and then SKIP
as described. Here n is the number of visible matches.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from typing import Any

from topology.base.operator import NEVER
from topology.queries.pattern.match.compiled import Compiled
from topology.queries.pattern.match.match import Match
from topology.queries.pattern.match.skip import Barrier, barrier_after, place
from topology.queries.pattern.run.found_match import FoundMatch
from topology.queries.pattern.store.entry import Key


class VisibleMatch:
    """A visible match, its unit's anchor, and whether SKIP keeps it.

    Attributes:
        behind: The barrier after the match; None until SKIP has examined it.
        place: The match's sort key among all visible matches.
    """

    __slots__ = ("anchor", "behind", "found", "id", "is_kept", "place")

    def __init__(self, anchor: Key, id_: str, found: FoundMatch) -> None:
        self.anchor = anchor
        self.id = id_
        self.found = found
        self.place = place(found.match)
        self.is_kept = False
        self.behind: Barrier | None = None


def _place_of(seen: VisibleMatch) -> Any:
    return seen.place


class Selection:
    """The selection that SKIP makes among the visible matches of one run.

    Attributes:
        barrier: The barrier that the forgotten, decided matches set for those after them.
        is_stale: Whether the visible matches must be passed in again.
    """

    __slots__ = (
        "_changed",
        "_high",
        "_low",
        "_query",
        "_seen",
        "_seen_of",
        "barrier",
        "is_stale",
    )

    def __init__(self, query: Compiled) -> None:
        self._query = query
        self.barrier = Barrier()
        self.clear()

    def clear(self) -> None:
        self.is_stale = True
        self._seen: list[VisibleMatch] = []
        self._seen_of: dict[Key, list[VisibleMatch]] = {}
        self._changed: dict[Key, None] = {}
        self._low = 0  # The positions from `_low` to `_high` are to be examined.
        self._high = -1

    def replace(self, anchor: Key, visible: Mapping[str, FoundMatch]) -> None:
        """Replace the visible matches of the unit with this anchor."""
        self._changed[anchor] = None
        now = [VisibleMatch(anchor, id_, found) for id_, found in visible.items()]
        gone = {seen.place: seen for seen in self._seen_of.pop(anchor, ())}
        for number, seen in enumerate(now):
            known = gone.pop(seen.place, None)
            if known is None:
                self._seen.insert(self._mark_changed(seen), seen)
                self._high += 1  # The changed matches after it have moved by one.
            else:
                known.found = seen.found
                now[number] = known
        for seen in gone.values():
            del self._seen[self._mark_changed(seen)]
        if now:
            self._seen_of[anchor] = now

    def _mark_changed(self, seen: VisibleMatch) -> int:
        """Return the position at which the match is or belongs, and mark it as changed."""
        at = bisect_left(self._seen, seen.place, key=_place_of)
        self._low = at if self._high < 0 else min(self._low, at)
        self._high = max(self._high, at)
        return at

    def reapply(self) -> list[Key]:
        """Apply SKIP again from the first changed match until its result no longer changes.

        Return the anchors of the changed units.
        """
        if self._high >= 0:
            barrier = self.barrier
            if self._low > 0:
                known = self._seen[self._low - 1].behind
                barrier = barrier if known is None else known
            for at in range(self._low, len(self._seen)):
                seen = self._seen[at]
                was = seen.behind
                barrier = self._keep_or_drop(seen, barrier)
                if at >= self._high and barrier == was:
                    break
            self._high = -1
        changed, self._changed = self._changed, {}
        return list(changed)

    def _keep_or_drop(self, seen: VisibleMatch, barrier: Barrier) -> Barrier:
        is_kept = not barrier.drops(seen.found.match)
        if is_kept:
            barrier = max(barrier, self._after(seen.found.match))
        if is_kept != seen.is_kept:
            self._changed[seen.anchor] = None
        seen.is_kept = is_kept
        seen.behind = barrier
        return barrier

    def list_kept(self, anchor: Key) -> dict[str, FoundMatch]:
        """Return the matches of the unit that SKIP kept in the last `reapply`."""
        mine = self._seen_of.get(anchor, ())
        return {seen.id: seen.found for seen in mine if seen.is_kept}

    def next_decided_ns(self, frontier_ns: int) -> int:
        """Return the next instant at which a visible match is decided; NEVER if there is none."""
        decided = (seen.found.decided_ns for seen in self._seen)
        return min((ns for ns in decided if ns >= frontier_ns), default=NEVER)

    def find_barrier(self, frontier_ns: int) -> Barrier:
        """Return the barrier after all matches that are decided before `frontier_ns`."""
        barrier = self.barrier
        for seen in self._seen:
            if seen.found.decided_ns < frontier_ns and not barrier.drops(seen.found.match):
                barrier = max(barrier, self._after(seen.found.match))
        return barrier

    def _after(self, match: Match) -> Barrier:
        query = self._query.query
        aliases = self._query.aliases[match.alternative]
        to = {query.skip_to, *query.skip_also}
        places = [j for j, alias in enumerate(aliases) if alias in to]
        return barrier_after(match, query.skip, places, self._query.end_ns(match))
