"""SKIP: which of all that is visible in a run is kept (`topology.pattern.match.skip`).

What is visible stands in the order in which SKIP looks at it, each match with the barrier behind
it. A change moves nothing before it, and nothing behind the first match at which the barrier is
what it was: so what is decided anew is what lies between.

Cost of a change: O(log n) and a move of references for each match that comes or goes, n being those
that are visible; then the matches from the first that changed to where the barrier is as before.

Proved by: tests/topology/pattern/test_engine_laws.py, tests/topology/pattern/match/test_skip.py,
tests/topology/pattern/test_published_cases.py
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from typing import Any

from topology.pattern.match.match import Match
from topology.pattern.match.skip import Barrier, after, place
from topology.pattern.run.compiled import Compiled
from topology.pattern.run.ledger import FoundMatch
from topology.pattern.store.entry import Key


class VisibleMatch:
    """A match that is visible: of which unit, and how SKIP has decided. `behind`: the barrier after
    it; None until it has been decided."""

    __slots__ = ("anchor", "behind", "found", "id", "is_kept")

    def __init__(self, anchor: Key, id_: str, found: FoundMatch) -> None:
        self.anchor = anchor
        self.id = id_
        self.found = found
        self.is_kept = False
        self.behind: Barrier | None = None


class Selection:
    """`chooses`: the query has a SKIP. `barrier`: what the matches decided so far drop of those
    that follow. `is_stale`: what is visible has to be told anew, all of it."""

    __slots__ = (
        "_changed",
        "_high",
        "_low",
        "_places",
        "_places_of",
        "_query",
        "_seen",
        "barrier",
        "chooses",
        "is_stale",
    )

    def __init__(self, query: Compiled) -> None:
        self._query = query
        self.chooses = query.query.skip != "none"
        self.barrier = Barrier()
        self.clear()
        self.is_stale = False

    def clear(self) -> None:
        """Nothing is known of what is visible."""
        self.is_stale = True
        self._places: list[Any] = []
        self._seen: list[VisibleMatch] = []
        self._places_of: dict[Key, list[Any]] = {}
        self._changed: dict[Key, None] = {}
        self._low = 0
        self._high = -1

    def replace(self, anchor: Key, visible: Mapping[str, FoundMatch]) -> None:
        """This is what is visible of the unit now."""
        self._changed[anchor] = None
        places = {place(found.match): (id_, found) for id_, found in visible.items()}
        before = self._places_of.pop(anchor, None)
        for each in before or ():
            at = bisect_left(self._places, each)
            if each in places:
                self._seen[at].found = places.pop(each)[1]
            else:
                self._touch(at)
                del self._places[at], self._seen[at]
        for each, (id_, found) in places.items():
            at = bisect_left(self._places, each)
            self._touch(at)
            self._high += 1
            self._places.insert(at, each)
            self._seen.insert(at, VisibleMatch(anchor, id_, found))
        if visible:
            self._places_of[anchor] = [place(found.match) for found in visible.values()]

    def _touch(self, at: int) -> None:
        """What stands there now, or will, is not where it was."""
        if self._high < 0:
            self._low = at
        self._low = min(self._low, at)
        self._high = max(self._high, at)

    def settle(self) -> list[Key]:
        """Decide what is not decided; the units of which something has changed since."""
        if self._high >= 0:
            barrier = self.barrier
            if self._low > 0:
                known = self._seen[self._low - 1].behind
                barrier = barrier if known is None else known
            for at in range(self._low, len(self._seen)):
                seen = self._seen[at]
                was = seen.behind
                barrier = self._decide(seen, barrier)
                if at >= self._high and was is not None and barrier.is_like(was):
                    break
            self._high = -1
        changed, self._changed = self._changed, {}
        return list(changed)

    def _decide(self, seen: VisibleMatch, barrier: Barrier) -> Barrier:
        is_kept = not barrier.drops(seen.found.match)
        if is_kept:
            barrier = barrier.behind(self._after(seen.found.match))
        if is_kept != seen.is_kept:
            self._changed[seen.anchor] = None
        seen.is_kept = is_kept
        seen.behind = barrier
        return barrier

    def kept(self, anchor: Key) -> dict[str, FoundMatch]:
        """What is kept of the unit, as it was settled."""
        found = [
            self._seen[bisect_left(self._places, at)] for at in self._places_of.get(anchor, ())
        ]
        return {seen.id: seen.found for seen in found if seen.is_kept}

    def decided(self, floor_ns: int) -> Barrier:
        """The barrier once what is decided before `floor_ns` counts."""
        barrier = self.barrier
        for seen in self._seen:
            if seen.found.decided_ns < floor_ns and not barrier.drops(seen.found.match):
                barrier = barrier.behind(self._after(seen.found.match))
        return barrier

    def _after(self, match: Match) -> Barrier:
        query = self._query.query
        aliases = self._query.aliases[match.alternative]
        component = aliases.index(query.skip_to) if query.skip_to in aliases else None
        return after(match, query.skip, component)
