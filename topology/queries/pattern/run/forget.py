"""Forgets what nothing can change any more, writes the rows of runs, and restores runs from them.

The state has a row for each unit with results that are not yet decided. Only the emitted results
are written, because the current matches can be found again from their events. A row whose results
have been decided stays until the unit changes or is forgotten.

With SKIP there is also a row of the barrier after the decided matches.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from topology.answer.query.results import CurrentResult
from topology.base.operator import NEVER, Plain, State
from topology.queries.pattern.match.match import Match
from topology.queries.pattern.match.skip import BEFORE_ALL, Barrier
from topology.queries.pattern.run.emit import (
    find_barrier,
    find_shown_results,
    forget_decided,
    select_visible,
)
from topology.queries.pattern.run.evaluate import evaluate, find_unit, walk_again
from topology.queries.pattern.run.found_match import FoundMatch
from topology.queries.pattern.run.run import MatchUnit, Run
from topology.queries.pattern.store.entry import Entry
from topology.queries.pattern.store.index import BEFORE_ALL_NS
from topology.state.saved import FLAG, INT, TEXT, ValueKind, list_of, tuple_of

EMITTED: Final = list_of(tuple_of(TEXT, INT, FLAG, FLAG, INT))
"""The row of a unit: each result's id, revision, whether it is live and final, and `decided_ns`."""

BARRIER: Final = tuple_of(INT, TEXT, INT, INT, FLAG)


def forget(run: Run) -> None:
    """Forget the units that nothing can change any more."""
    frontier_ns = run.agenda.frontier_ns
    if run.walks is not None:
        for anchor in run.walks.over(frontier_ns):
            run.drop(anchor)
        return
    forget_decided(run)
    span_ns = run.open_ns
    for unit in list(run.units.values()):
        if unit.anchor.time_ns + span_ns < frontier_ns:
            run.wait(unit, frozenset())
            run.drop(unit.anchor)
        elif unit.anchor.time_ns < frontier_ns:
            unit.forget(frontier_ns)


def close(run: Run) -> None:
    """Delete the run's rows and its timer; all of its units must have been forgotten."""
    run.agenda.rows |= dict.fromkeys(run.written)
    run.agenda.changed.pop(run, None)
    run.agenda.barriers.disarm(run)


def wake(unit: MatchUnit) -> bool:
    """Return whether a unit whose timer is due still exists."""
    run, anchor = unit.run, unit.anchor
    if run.units.get(anchor.key) is not unit:
        return False
    if run.walks is not None:
        find_unit(run, run.walks, anchor)
    return True


# -- state -----------------------------------------------------------------------------------------


def write(run: Run) -> None:
    """Write the rows of the units changed since the last call, and the barrier's row."""
    rows, frontier_ns = run.agenda.rows, run.agenda.frontier_ns
    for at, anchor in run.touched.items():
        row = _make_row(run.units.get(at), frontier_ns)
        key = run.row_key(anchor)
        if row is not None:
            run.written[key] = rows[key] = row
        elif run.written.pop(key, None) is not None:
            rows[key] = None
    run.touched.clear()
    if run.selection is not None:
        barrier = find_barrier(run, run.selection)
        row = (*barrier.key, barrier.includes)
        if barrier.key != BEFORE_ALL and row != run.written.get(run.barrier_key):
            run.written[run.barrier_key] = rows[run.barrier_key] = row
        until_ns = run.selection.next_decided_ns(frontier_ns)
        if until_ns < NEVER:
            run.agenda.barriers.arm(run, until_ns)


def _make_row(unit: MatchUnit | None, frontier_ns: int) -> Plain:
    """Return the row of a unit, or None if there is nothing to write."""
    if unit is None:
        return None
    rows = [
        (id_, old.revision, old.live, old.final, old.content.decided_ns)
        for id_, old in unit.emitted.items()
        if old.content.decided_ns >= frontier_ns
    ]
    return rows or None


def restore(run: Run, state: State) -> None:
    """Restore the units from the stored events, and take the run's rows out of `state`."""
    if run.selection is not None:
        run.agenda.barriers.arm(run, BEFORE_ALL_NS)
        if run.barrier_key in state:
            *at, includes = _take_row(run, run.barrier_key, BARRIER, state)
            run.selection.barrier = Barrier(tuple(at), includes)
    for anchor in run.anchors(BEFORE_ALL_NS, -BEFORE_ALL_NS):
        key = run.row_key(anchor)
        row = _take_row(run, key, EMITTED, state) if key in state else ()
        unit = _evaluate_again(run, anchor, row)
        unit.is_overflow_known = unit.overflowed
        select_visible(run, unit)


def _take_row(run: Run, key: str, kind: ValueKind, state: State) -> Any:
    """Take a row out of a state that is being restored, and return its value."""
    row = run.written[key] = kind.load(state.pop(key), None, key)
    return row


def restore_retracted(run: Run, anchor: Entry, state: State) -> None:
    """Restore the results of a unit whose anchor was retracted before the state was written.

    Their rows are taken out of `state`. Their revisions continue if the anchor returns.
    """
    key = run.row_key(anchor)
    if key in state:
        unit = MatchUnit(anchor, run)
        _restore_emitted(unit, {}, _take_row(run, key, EMITTED, state))
        if unit.emitted:
            run.units[anchor.key] = unit


def _evaluate_again(run: Run, anchor: Entry, row: Plain) -> MatchUnit:
    """Return the unit as evaluated now, with the results that were emitted for it."""
    walks = run.walks
    unit = evaluate(run, anchor) if walks is None else walk_again(run, walks, anchor)
    if row:
        _show_again(unit, row)
        if unit.emitted:
            run.units[anchor.key] = unit
        elif anchor.key not in run.units:
            run.mark_changed(anchor)  # Its results were decided after its row was written.
    return unit


def put_back(run: Run, anchor: Entry, evaluated: Plain) -> None:
    """Replace a restored unit by what it was when it was last evaluated.

    `evaluated`: its `hi_ns`, its `waits`, and its matches by id; None if it never was.
    """
    known = run.units.pop(anchor.key, None)
    if known is not None:
        run.wait(known, frozenset())
    if evaluated is None:
        return
    unit = run.units[anchor.key] = MatchUnit(anchor, run)
    unit.hi_ns, waits, found = evaluated
    unit.found = found
    if run.wiring.starts_wait:
        run.wait(unit, waits)
    _show_again(unit, run.written.get(run.row_key(anchor), ()))
    select_visible(run, unit)


def _show_again(unit: MatchUnit, row: Plain) -> None:
    shown: Mapping[str, FoundMatch] = unit.found
    if unit.run.query.shows_apart:
        shown = find_shown_results(unit.run, unit, shown)
    _restore_emitted(unit, shown, row)


def _restore_emitted(unit: MatchUnit, shown: Mapping[str, FoundMatch], row: Plain) -> None:
    """Restore the emitted results of a unit from its row. `shown`: its current results by id."""
    for id_, revision, live, final, decided_ns in row:
        # Results that were decided after the row was written are skipped.
        if decided_ns >= unit.run.agenda.frontier_ns:
            found = shown.get(id_)
            if found is None:  # A retracted result needs only its revision.
                found = FoundMatch(Match(0, ((unit.anchor,),)), decided_ns)
            unit.emitted[id_] = CurrentResult(found, revision, live=live, final=final)
