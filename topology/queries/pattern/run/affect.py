"""Finds the units of a run that an event can change, by the matches in them.

A unit is all matches found from one event, its anchor (`run`). SKIP may then change further
units, also beyond a window (`selection`).

Cost of an event in order:

- Under skip-till-any it affects one unit if it can end a match. If it may forbid earlier matches,
  it affects all units within a window.
- For MATCHES ONE and BEST it affects one unit for each start that waits for such an event.
- For ALL from start events it may affect each start that can lead to the event (`earliest`).

An event out of order affects every unit within a window of it.

If events have time errors, an event may also put a match in doubt. For most queries, each event
does so independently of all others (`Wiring.doubts_apart`). Then corrected timestamps alone select
the units to evaluate, and `SureUnits` finds those in doubt without an evaluation. Otherwise, all
units with a match that is not yet decided are evaluated too.

By corrected timestamps an event changes only units at most a window away. In a unit further away it
can change only grades, if it may have happened at most a window from a member. Without this check,
one event of a clock that is off by a second would make every event grade a second of matches again.

The check is valid because a grade depends on the members and on each other event separately. It is
not valid for STRICT and UNTIL, because a third event may be between the two. Nor is it for
POSSIBLE, which finds matches that corrected timestamps do not form. For those, every unit within
reach of the largest error counts as affected.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from topology.queries.pattern.match.match import Bound
from topology.queries.pattern.run.run import ANY_SLOT, MatchUnit, Run
from topology.queries.pattern.store.entry import Entry, Key
from topology.queries.pattern.store.index import BEFORE_ALL_NS
from topology.queries.pattern.tree.syntax import FROM_START


def uses_any(run: Run, filters: Sequence[int]) -> bool:
    """Return whether the query uses any of these filters."""
    return not run.wiring.filters.isdisjoint(filters)


def find_affected(run: Run, entry: Entry, filters: Sequence[int], *, in_order: bool) -> list[Entry]:
    """Return the anchors of the units that the entry can change.

    The entry is already in the indexes of these filters.
    """
    query, shape = run.query, run.query.shape
    mine = run.wiring.filters.intersection(filters)
    if not mine and not shape.strict:
        return []
    is_in_doubt, doubts_apart = run.doubt.margin_ns > 0, run.doubts_independently
    if not in_order or (is_in_doubt and query.possible is not None):
        anchors = _find_affected_out_of_order(run, entry)
    else:
        anchors = _find_affected_in_order(run, entry, mine)
        if is_in_doubt and not doubts_apart:
            affected = {anchor.key: anchor for anchor in (*anchors, *_find_undecided(run, entry))}
            anchors = [affected[key] for key in sorted(affected)]
    if not is_in_doubt or query.possible is not None or shape.strict or query.untils:
        return anchors
    span_ns, known = query.span_ns, run.units.get
    return [
        anchor
        for anchor in anchors
        if abs(anchor.time_ns - entry.time_ns) <= span_ns
        or (not doubts_apart and _is_in_doubt(known(anchor.key), entry, span_ns))
    ]


def _find_affected_in_order(run: Run, entry: Entry, mine: frozenset[int]) -> list[Entry]:
    wiring, shape = run.wiring, run.query.shape
    if shape.by_end:
        if shape.looks_ahead and mine & wiring.blockers:
            return run.anchors(entry.time_ns - run.span_ns, entry.time_ns)
        return [entry] if mine & wiring.anchors else []
    if run.query.query.matches in FROM_START:
        woken = _find_woken(run, mine, entry)
        if mine & wiring.anchors:
            woken.append(entry)
        return woken
    if mine & wiring.enders or (shape.has_end_negation and mine & wiring.blockers):
        return run.anchors(_find_earliest_ns(run, entry), entry.time_ns)
    return []


def _find_earliest_ns(run: Run, entry: Entry) -> int:
    """Return the time before which no start has a match that the entry ends or forbids."""
    since_ns, earliest = entry.time_ns - run.span_ns, run.query.earliest
    if earliest is None or (run.doubt.margin_ns and not run.doubts_independently):
        return since_ns
    since_ns = entry.time_ns - run.query.within_ns
    return earliest.before(run.place, entry, since_ns)


def _find_undecided(run: Run, entry: Entry) -> list[Entry]:
    """Return the anchors of the units with a match that the entry can still change."""
    time_ns, known = entry.time_ns, run.units.get
    since_ns = time_ns - run.span_ns - run.doubt.margin_ns
    return [
        anchor
        for anchor in run.anchors(since_ns, -BEFORE_ALL_NS)
        if (unit := known(anchor.key)) is not None and unit.is_undecided(time_ns)
    ]


def _find_affected_out_of_order(run: Run, entry: Entry) -> list[Entry]:
    shape, time_ns, span_ns = run.query.shape, entry.time_ns, run.span_ns
    margin_ns = run.doubt.margin_ns
    if shape.by_end:
        since_ns = time_ns - (span_ns if shape.looks_ahead else margin_ns)
        until_ns = time_ns + (2 if shape.looks_back else 1) * span_ns
    else:
        reaches_back = shape.has_start_negation or shape.looks_back
        since_ns = time_ns - span_ns
        until_ns = time_ns + (span_ns if reaches_back else margin_ns)
    anchors = run.anchors(since_ns, until_ns)
    if margin_ns and run.query.possible is not None:
        return anchors  # The match may have been found when errors were smaller than now.
    looks_further = margin_ns > 0 and not run.doubts_independently
    known = run.units.get
    return [
        anchor
        for anchor in anchors
        if (unit := known(anchor.key)) is None
        or time_ns <= unit.hi_ns
        or anchor is entry
        or (looks_further and unit.is_undecided(time_ns))
    ]


def find_around(run: Run, entry: Entry) -> list[Entry]:
    """Return the anchors of all units whose matches the entry may affect in any role."""
    reach_ns = run.query.reach_ns + 3 * run.doubt.margin_ns
    return run.anchors(entry.time_ns - reach_ns, entry.time_ns + reach_ns)


# -- starts that wait (MATCHES ONE, BEST) -------------------------------------------------


def _find_woken(run: Run, filters: Iterable[int], entry: Entry) -> list[Entry]:
    """Return the anchors of the waiting units that this entry may change.

    Units whose window ended before the entry stop waiting.
    """
    slots = {slot for number in filters for slot in run.wiring.slots_of.get(number, ())}
    since_ns = entry.time_ns - run.span_ns
    found: dict[Key, Entry] = {}
    for slot in (ANY_SLOT, *sorted(slots)):
        for key, unit in list(run.waiting.get(slot, {}).items()):
            if unit.anchor.time_ns < since_ns:
                run.wait(unit, frozenset())
            else:
                found[key] = unit.anchor
    return [found[key] for key in sorted(found)]


# -- times that are not exact ----------------------------------------------------------------------


def _is_in_doubt(unit: MatchUnit | None, entry: Entry, span_ns: int) -> bool:
    if unit is None:
        return False
    low_ns, high_ns = entry.low_ns - span_ns, entry.high_ns + span_ns
    return any(_overlaps(found.match.bound, low_ns, high_ns) for found in unit.found.values())


def _overlaps(bound: Bound, low_ns: int, high_ns: int) -> bool:
    """Return whether the time range of a match's members overlaps low_ns..high_ns."""
    return any(one.high_ns >= low_ns for entries in bound for one in entries) and any(
        one.low_ns <= high_ns for entries in bound for one in entries
    )
