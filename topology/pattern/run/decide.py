"""Chooses the matches that a run may emit now, applies SKIP, and computes the results to show.

A match is *visible* once it may be emitted:

- With EMIT FINAL, when nothing can change it any more.
- With a quality target, when it is decided before the target, or was already emitted.
- Otherwise, if the pattern can end in a negation, when the clock has passed the time that decides
  it with exact times (`Compiled.decided_ns`).
- Otherwise, at once.

Matches that are not visible yet get a timer (`agenda`).

SKIP chooses among all visible matches of a run (`selection`).

With ALL ROWS PER MATCH, each event of a match is a result, whose id begins with the match's id.
Columns with PREV or NEXT may read events outside the match. These results are computed whenever
their unit is emitted (`find_shown_results`). Decided ones stay as they were emitted, because the
events around them may have been purged.

Cost: O(matches of the unit), and that of SKIP. ALL ROWS costs O(rows²) if a column looks at all
rows up to its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from topology.model.result import UNCERTAIN, result_id
from topology.pattern.match.compiled import Compiled
from topology.pattern.match.ids import identity_bytes
from topology.pattern.match.skip import Barrier
from topology.pattern.run.query import PartitionQuery
from topology.pattern.run.selection import Selection
from topology.pattern.run.unit import FoundMatch, MatchUnit
from topology.pattern.store.entry import Key


class Visibility:
    """The rules for which matches of one run are visible, with timers for the others.

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

    def select_changed(
        self, units: Iterable[MatchUnit]
    ) -> list[tuple[MatchUnit, dict[str, FoundMatch]]]:
        """Return the matches that may be emitted, as units, each with its matches by id.

        With SKIP, these are all units with changes: the given ones, and those whose matches SKIP
        now keeps or drops differently.
        """
        if self.selection is None:
            return [(unit, self.of(unit)) for unit in units]
        self._pass_to_skip(self.selection, units)
        shown = [(self._at.units.get(key), key) for key in self.selection.reapply()]
        return [(unit, self.selection.list_kept(key)) for unit, key in shown if unit is not None]

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

    def _pass_to_skip(self, selection: Selection, units: Iterable[MatchUnit]) -> None:
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

    def find_barrier(self, selection: Selection) -> Barrier:
        """Return the barrier that the decided matches set for the matches after them.

        With SKIP, matches are decided in the order of their starts.
        """
        self._pass_to_skip(selection, ())
        return selection.find_barrier(self._at.now.frontier_ns)

    def let_go(self) -> None:
        """Forget the visible matches at a purge, but keep the barrier after the decided ones."""
        if self.selection is not None:
            self.selection.barrier = self.find_barrier(self.selection)
            self.selection.clear()


ROW_DIGITS = 16
"""The number of digits of a row's id that follow the id of its match."""


def find_shown_results(
    at: PartitionQuery, unit: MatchUnit, visible: Mapping[str, FoundMatch]
) -> dict[str, FoundMatch]:
    """Return the results to show for the visible matches, by result id."""
    at.query.environment.neighbours.set_events(at.place.everything, at.query.within_ns)
    shown: dict[str, FoundMatch] = {}
    for id_, found in visible.items():
        is_decided = found.decided_ns < at.now.frontier_ns
        emitted = dict(_find_emitted(unit, id_)) if is_decided else {}
        shown |= emitted or dict(_make_result_rows(at.query, id_, found))
    return shown


def _make_result_rows(
    query: Compiled, id_: str, found: FoundMatch
) -> Iterator[tuple[str, FoundMatch]]:
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
    for alias, entry, values in query.rows(match):
        row_id = id_ + result_id(identity_bytes(entry))[:ROW_DIGITS]
        row = FoundMatch(match, found.decided_ns, confidence, found.graded_ns, values)
        row.row = (alias, entry)
        yield row_id, row


def _find_emitted(unit: MatchUnit, id_: str) -> Iterator[tuple[str, FoundMatch]]:
    """Yield the results of this match that consumers have, with their ids."""
    for known, current in unit.emitted.items():
        if current.live and known.startswith(id_):
            yield known, current.content
