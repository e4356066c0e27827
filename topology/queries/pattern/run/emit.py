"""Chooses the matches that a run may emit now, and finds what differs from the emitted results.

A match is *visible* once it may be emitted:

- With EMIT FINAL, when nothing can change it any more.
- With a quality target, when it is decided before the target, or was already emitted.
- Otherwise, if the pattern can end in a negation, when the clock has passed the time that decides
  it with exact times (`Compiled.decided_ns`).
- Otherwise, at once.

Matches that are not visible yet get a timer (`run.Agenda`).

SKIP chooses among all visible matches of a run (`selection`).

With ALL ROWS PER MATCH, each event of a match is a result, whose id begins with the match's id.
Columns with PREV or NEXT may read events outside the match. These results are computed whenever
their unit is emitted (`find_shown_results`). Decided ones stay as they were emitted, because the
events around them may have been purged.

Results are compared by id with those emitted before. A new id becomes an emit, a known id with
other content an update, and a missing id a retract. So a result is never retracted and emitted
again unchanged. `match_results` makes the results of these changes.

Cost: O(matches of the unit), and that of SKIP. ALL ROWS costs O(rows²) if a column looks at all
rows up to its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from topology.answer.query.results import NO_NEWS, CurrentResult
from topology.base.result import UNCERTAIN, result_id
from topology.queries.pattern.match.compiled import Compiled
from topology.queries.pattern.match.ids import identity_bytes
from topology.queries.pattern.match.skip import Barrier
from topology.queries.pattern.run.found_match import FoundMatch
from topology.queries.pattern.run.run import BEFORE_ALL_TIME, MatchUnit, Run
from topology.queries.pattern.run.selection import Selection

ROW_DIGITS: Final = 16
"""The number of digits of a row's id that follow the id of its match."""


class Change:
    """One result to emit, update or retract.

    Attributes:
        run: The run that found it.
        op: The operation: EMIT, UPDATE or RETRACT.
        found: The result's new content; for a retract, its last content.
        before: The content that consumers had until now; `found` if the result is new to them.
    """

    __slots__ = ("before", "final", "found", "id", "op", "revision", "run")

    def __init__(
        self,
        run: Run,
        op: str,
        id_: str,
        revision: int,
        before: FoundMatch,
        found: FoundMatch,
        final: bool,
    ) -> None:
        self.run = run
        self.op = op
        self.id = id_
        self.revision = revision
        self.before = before
        self.found = found
        self.final = final


def emit_units(run: Run, units: Iterable[MatchUnit]) -> list[Change]:
    """Return the changes of these units, and of those that SKIP changes with them."""
    changes: list[Change] = []
    for unit, visible in _select_changed(run, units):
        changes += emit_unit(run, unit, visible)
    return changes


def emit_unit(run: Run, unit: MatchUnit, visible: Mapping[str, FoundMatch]) -> list[Change]:
    """Return the changes that turn the unit's emitted results into `visible`, and record them."""
    if not visible and not unit.emitted:
        return []
    if run.query.shows_apart:
        visible = find_shown_results(run, unit, visible)
    changes = _make_changes(run, unit, visible)
    if changes:
        run.mark_changed(unit.anchor)
        if run.selection is not None and run.wiring.target_ns is not None:
            # An emitted match stays visible, even if its new version is not decided before the
            # target.
            run.again[unit.anchor.key] = None
    # A restored unit has the newest match of each result. It need not have changed the result,
    # but it places later changes among others, and says when they are final.
    for id_, found in visible.items():
        current = unit.emitted[id_]
        if current.content.decided_ns != found.decided_ns:
            run.mark_changed(unit.anchor)
        current.content = found
    return changes


def _make_changes(run: Run, unit: MatchUnit, visible: Mapping[str, FoundMatch]) -> list[Change]:
    """Return the changes, and apply them to the emitted results. Only this function retracts."""
    changes: list[Change] = []
    frontier_ns = run.agenda.frontier_ns
    # An early result is emitted once more when it becomes final. The end of the input alone makes
    # no result final.
    finals_until_ns = run.agenda.proven_ns if run.wiring.emits_final else BEFORE_ALL_TIME
    for id_, old in unit.emitted.items():
        if old.live and id_ not in visible:
            # The frontier may have moved since the unit was evaluated (`Level.advance`).
            op = old.retract(is_final=old.content.decided_ns < frontier_ns)
            changes.append(Change(run, op, id_, old.revision, old.content, old.content, old.final))
    for id_, found in visible.items():
        current = unit.emitted.get(id_)
        if current is None:
            current = unit.emitted[id_] = CurrentResult(found)
        is_final = found.decided_ns < frontier_ns
        becomes_final = is_final and not current.final and found.decided_ns < finals_until_ns
        before = current.content
        is_news = becomes_final or not _is_same(before, found)
        op = current.show(found, is_news=is_news, is_final=is_final)
        if op != NO_NEWS:
            changes.append(Change(run, op, id_, current.revision, before, found, is_final))
    return changes


def _is_same(one: FoundMatch, other: FoundMatch) -> bool:
    if one is other:
        return True
    # The texts are compared because 1, 1.0 and true are equal in Python; most results have None.
    has_same_values = one.values is other.values or repr(one.values) == repr(other.values)
    if one.confidence != other.confidence or not has_same_values:
        return False
    was, now = one.match, other.match
    if one.row is None or other.row is None:
        return was.is_same_as(now)
    # Only SQL has rows, and it has no FOR, so both ends are times of events.
    times = (was.first.time_ns, was.last.time_ns)
    return one.row[0] == other.row[0] and times == (now.first.time_ns, now.last.time_ns)


# -- what may be emitted ---------------------------------------------------------------------------


def _select_changed(
    run: Run, units: Iterable[MatchUnit]
) -> list[tuple[MatchUnit, dict[str, FoundMatch]]]:
    """Return the matches that may be emitted, as units, each with its matches by id.

    With SKIP, these are all units with changes: the given ones, and those whose matches SKIP
    now keeps or drops differently.
    """
    if run.selection is None:
        return [(unit, select_visible(run, unit)) for unit in units]
    _pass_to_skip(run, run.selection, units)
    shown = [(run.units.get(key), key) for key in run.selection.reapply()]
    return [(unit, run.selection.list_kept(key)) for unit, key in shown if unit is not None]


def select_visible(run: Run, unit: MatchUnit) -> dict[str, FoundMatch]:
    """Return the unit's visible matches before SKIP, and arm timers for the others."""
    query, agenda = run.query, run.agenda
    target_ns, is_final = run.wiring.target_ns, query.query.emit == "final"
    if run.wiring.emits_final or is_final:
        for found in unit.found.values():
            if found.decided_ns >= agenda.frontier_ns:
                agenda.frontier.arm(unit, found.decided_ns)
    if target_ns is None and not is_final and not query.shape.has_end_negation:
        return unit.found
    visible: dict[str, FoundMatch] = {}
    for id_, found in unit.found.items():
        if target_ns is not None:
            if found.decided_ns < target_ns or _is_emitted(run, unit, id_):
                visible[id_] = found
            else:
                run.wiring.at_target.arm(unit, found.decided_ns)
        elif is_final:
            if found.decided_ns < agenda.frontier_ns:
                visible[id_] = found
        elif (over_ns := query.decided_ns(found.match)) < agenda.clock_ns:
            visible[id_] = found
        else:
            agenda.events.arm(unit, over_ns)
    return visible


def _is_emitted(run: Run, unit: MatchUnit, id_: str) -> bool:
    """Return whether consumers have the match, or a row of it."""
    if run.query.query.all_rows:
        return any(True for _ in _find_emitted(unit, id_))
    emitted = unit.emitted.get(id_)
    return emitted is not None and emitted.live


def _pass_to_skip(run: Run, selection: Selection, units: Iterable[MatchUnit]) -> None:
    """Pass the visible matches of these units to SKIP.

    Units with results that were emitted or retracted since the last call are passed too.
    """
    if selection.is_stale:
        selection.is_stale = False
        units = list(run.units.values())
    else:
        again, run.again = run.again, {}
        units = [*units, *(run.units[key] for key in again if key in run.units)]
    for unit in units:
        selection.replace(unit.anchor.key, select_visible(run, unit))


def find_barrier(run: Run, selection: Selection) -> Barrier:
    """Return the barrier that the decided matches set for the matches after them.

    With SKIP, matches are decided in the order of their starts.
    """
    _pass_to_skip(run, selection, ())
    return selection.find_barrier(run.agenda.frontier_ns)


def forget_decided(run: Run) -> None:
    """Forget the visible matches at a purge, but keep the barrier after the decided ones."""
    if run.selection is not None:
        run.selection.barrier = find_barrier(run, run.selection)
        run.selection.clear()


# -- rows and columns of SQL -----------------------------------------------------------------------


def find_shown_results(
    run: Run, unit: MatchUnit, visible: Mapping[str, FoundMatch]
) -> dict[str, FoundMatch]:
    """Return the results to show for the visible matches, by result id."""
    run.query.environment.neighbours.set_events(run.place.everything, run.query.within_ns)
    shown: dict[str, FoundMatch] = {}
    for id_, found in visible.items():
        is_decided = found.decided_ns < run.agenda.frontier_ns
        emitted = dict(_find_emitted(unit, id_)) if is_decided else {}
        shown |= emitted or dict(_make_result_rows(run.query, id_, found))
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
