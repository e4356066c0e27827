"""Chooses the matches that a run may emit now, applies SKIP, and computes the results to show.

A match is *visible* once it may be emitted:

- With EMIT EAGER or SLACK, at once. If the pattern can end in a negation, it is visible when the
  clock has passed the time that decides it with exact times (`Compiled.decided_ns`).
- With EMIT FINAL, when nothing can change it any more.
- With a quality target, when it is decided before the target, or was already emitted.

Matches that are not visible yet get a timer (`agenda`).

SKIP (`topology.pattern.match.skip`) chooses among all visible matches of a run. They are kept in
the order in which SKIP examines them, each with the barrier after it. After a change, SKIP is
applied again from the first changed match on. It stops after the last changed match, at the first
match whose barrier stays the same.

With ALL ROWS PER MATCH, each event of a match is a result, whose id begins with the match's id.
Columns with PREV or NEXT may read events outside the match. These results are computed whenever
their unit is emitted (`shown_results`). Decided ones stay as they were emitted, because the events
around them may have been purged.

Cost of a change: O(log n) and a move of references for each match added or removed, and then SKIP
as described. Here n is the number of visible matches. ALL ROWS costs O(rows²) if a column looks at
all rows up to its own.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from topology.model.operator import NEVER
from topology.model.result import UNCERTAIN, result_id
from topology.pattern.match.anchors import spelled
from topology.pattern.match.compiled import Compiled
from topology.pattern.match.match import Match
from topology.pattern.match.skip import Barrier, after, place
from topology.pattern.run.query import PartitionQuery
from topology.pattern.run.unit import FoundMatch, MatchUnit
from topology.pattern.store.entry import Key


class Visibility:
    """Determines which matches of one run are visible, and arms timers for the others.

    Attributes:
        emits_final: Whether an early result is emitted once more when it becomes final.
        selection: The selection by SKIP; None if the query has no SKIP.
    """

    __slots__ = ("_again", "_at", "emits_final", "selection")

    def __init__(self, at: PartitionQuery) -> None:
        self._at = at
        self.emits_final = at.query.name in at.context.emits_final
        self.selection = Selection(at.query) if at.query.shape.skips else None
        self._again: dict[Key, None] = {}

    def of_all(self, units: Iterable[MatchUnit]) -> list[tuple[MatchUnit, dict[str, FoundMatch]]]:
        """Return the matches that may be emitted, as units, each with its matches by id.

        With SKIP, these are all units with changes: the given ones, and those whose matches SKIP
        now keeps or drops differently.
        """
        if self.selection is None:
            return [(unit, self.of(unit)) for unit in units]
        self._show(self.selection, units)
        shown = [(self._at.units.get(key), key) for key in self.selection.settle()]
        return [(unit, self.selection.kept(key)) for unit, key in shown if unit is not None]

    def of(self, unit: MatchUnit) -> dict[str, FoundMatch]:
        """Return the unit's visible matches before SKIP, and arm timers for the others."""
        query, now, agenda = self._at.query, self._at.now, self._at.context.agenda
        target_ns, is_final = self._at.wiring.target_ns, query.query.emit == "final"
        if self.emits_final or is_final:
            for found in unit.found.values():
                if found.decided_ns >= now.frontier_ns:
                    agenda.frontier.arm(unit, found.decided_ns)
        if target_ns is None and not is_final and not query.shape.has_end_negation:
            return unit.found
        visible: dict[str, FoundMatch] = {}
        for id_, found in unit.found.items():
            if target_ns is not None:
                if found.decided_ns < target_ns or self._is_emitted(unit, id_):
                    visible[id_] = found
                else:
                    self._at.wiring.at_target.arm(unit, found.decided_ns)
            elif is_final:
                if found.decided_ns < now.frontier_ns:
                    visible[id_] = found
            elif (over_ns := query.decided_ns(found.match)) < now.clock_ns:
                visible[id_] = found
            else:
                agenda.events.arm(unit, over_ns)
        return visible

    def _is_emitted(self, unit: MatchUnit, id_: str) -> bool:
        """Return whether consumers have the match, or a row of it."""
        if self._at.query.query.all_rows:
            rows = (current for row, current in unit.emitted.items() if row.startswith(id_))
            return any(current.live for current in rows)
        emitted = unit.emitted.get(id_)
        return emitted is not None and emitted.live

    def note_emitted(self, unit: MatchUnit) -> None:
        """Record that a result of the unit was emitted or retracted."""
        if self.selection is not None and self._at.wiring.target_ns is not None:
            # An emitted match stays visible, even if its new version is not decided before the
            # target.
            self._again[unit.anchor.key] = None

    # -- with SKIP ----------------------------------------------------------------------------

    def _show(self, selection: Selection, units: Iterable[MatchUnit]) -> None:
        """Pass the visible matches of these units to SKIP.

        Units with results that were emitted or retracted since the last call are passed too.
        """
        if selection.is_stale:
            selection.is_stale = False
            units = list(self._at.units.values())
        else:
            again, self._again = self._again, {}
            units = [*units, *(self._at.units[key] for key in again if key in self._at.units)]
        for unit in units:
            selection.replace(unit.anchor.key, self.of(unit))

    def decided(self, selection: Selection) -> Barrier:
        """Return the barrier that the decided matches set for the matches after them.

        With SKIP, matches are decided in the order of their starts.
        """
        self._show(selection, ())
        return selection.decided(self._at.now.frontier_ns)

    def let_go(self) -> None:
        """Forget the visible matches at a purge, but keep the barrier after the decided ones."""
        if self.selection is not None:
            self.selection.barrier = self.decided(self.selection)
            self.selection.clear()


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
        self._low = 0
        self._high = -1

    def replace(self, anchor: Key, visible: Mapping[str, FoundMatch]) -> None:
        """Replace the visible matches of the unit with this anchor."""
        self._changed[anchor] = None
        now = [VisibleMatch(anchor, id_, found) for id_, found in visible.items()]
        gone = {seen.place: seen for seen in self._seen_of.pop(anchor, ())}
        for number, seen in enumerate(now):
            known = gone.pop(seen.place, None)
            if known is None:
                self._seen.insert(self._touched(seen), seen)
                self._high += 1
            else:
                known.found = seen.found
                now[number] = known
        for seen in gone.values():
            del self._seen[self._touched(seen)]
        if now:
            self._seen_of[anchor] = now

    def _touched(self, seen: VisibleMatch) -> int:
        """Return the position at which the match is or belongs, and mark it as changed."""
        at = bisect_left(self._seen, seen.place, key=_place_of)
        self._low = at if self._high < 0 else min(self._low, at)
        self._high = max(self._high, at)
        return at

    def settle(self) -> list[Key]:
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

    def kept(self, anchor: Key) -> dict[str, FoundMatch]:
        """Return the matches of the unit that SKIP kept in the last `settle`."""
        mine = self._seen_of.get(anchor, ())
        return {seen.id: seen.found for seen in mine if seen.is_kept}

    def next_decided_ns(self, frontier_ns: int) -> int:
        """Return the next instant at which a visible match is decided; NEVER if there is none."""
        decided = (seen.found.decided_ns for seen in self._seen)
        return min((ns for ns in decided if ns >= frontier_ns), default=NEVER)

    def decided(self, frontier_ns: int) -> Barrier:
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
        return after(match, query.skip, places, self._query.end_ns(match))


ROW_DIGITS = 16
"""The number of digits of a row's id that follow the id of its match."""


def shown_results(
    at: PartitionQuery, unit: MatchUnit, visible: Mapping[str, FoundMatch]
) -> dict[str, FoundMatch]:
    """Return the results to show for the visible matches, by result id."""
    at.query.environment.neighbours.look_at(at.place.everything, at.query.within_ns)
    shown: dict[str, FoundMatch] = {}
    for id_, found in visible.items():
        is_decided = found.decided_ns < at.now.frontier_ns
        emitted = dict(_emitted(unit, id_)) if is_decided else {}
        shown |= emitted or dict(_made(at.query, id_, found))
    return shown


def _made(query: Compiled, id_: str, found: FoundMatch) -> Iterator[tuple[str, FoundMatch]]:
    match, confidence = found.match, found.confidence
    if query.reads_beyond:
        low_ns = match.first.low_ns - query.within_ns
        high_ns = match.last.high_ns + query.within_ns
        if not query.environment.neighbours.are_exact(low_ns, high_ns):
            confidence = UNCERTAIN
    if not query.query.all_rows:
        values = query.values(match)
        yield id_, FoundMatch(match, found.decided_ns, confidence, found.graded_ns, values)
        return
    for j, entry, values in query.rows(match):
        row_id = id_ + result_id(spelled(entry))[:ROW_DIGITS]
        row = FoundMatch(match, found.decided_ns, confidence, found.graded_ns, values)
        row.row = (j, entry)
        yield row_id, row


def _emitted(unit: MatchUnit, id_: str) -> Iterator[tuple[str, FoundMatch]]:
    """Yield the results of this match that consumers have, with their ids."""
    for known, current in unit.emitted.items():
        if current.live and known.startswith(id_):
            yield known, current.content
