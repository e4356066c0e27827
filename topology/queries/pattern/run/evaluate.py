"""Finds the matches of a unit: the general way evaluates it again, the plain way follows its walk.

Both ways find exactly the same matches. The plain way needs a plain sequence
(`match.tactics.followed`) whose results are emitted when found, and not once more when final. A run
switches to the general way for good (`switch_to_general`) at the first inexact time, unless the
query ignores time errors. It also switches if the indexes grow beyond the entries that one
evaluation may examine.

If events have time errors, each match is graded: CONFIRMED or UNCERTAIN. For most queries, each
event puts certain matches in doubt independently of all others (`Wiring.doubts_apart`). It can do
so only if it and a member may have happened at most a window apart (`SureUnits`).
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Final

from topology.answer.query.results import CurrentResult
from topology.base.result import CONFIRMED, EMIT, UNCERTAIN
from topology.queries.pattern.match.evaluation import Evaluation
from topology.queries.pattern.match.match import Match
from topology.queries.pattern.match.tactics.followed import FollowedWalks, Taken
from topology.queries.pattern.match.uncertain.grade import Grading
from topology.queries.pattern.match.uncertain.possible import Possible
from topology.queries.pattern.run.emit import Change, emit_unit
from topology.queries.pattern.run.found_match import FoundMatch
from topology.queries.pattern.run.run import BEFORE_ALL_TIME, MatchUnit, Run
from topology.queries.pattern.store.entry import Entry, Key

NO_CHANGES: Final[Sequence[Change]] = ()


def evaluate_units(
    run: Run,
    anchors: Mapping[Key, Entry],
    new_entry: Entry | None,
    withdrawn: Container[Entry],
    *,
    is_exchanged: bool,
) -> list[MatchUnit]:
    """Evaluate the units of these anchors again, and return the units to emit.

    `new_entry`: the event that changes the units; it is already in the indexes. It may put
    further units in doubt, which are returned too. `is_exchanged`: whether matches that the
    query reads were also added or removed. `withdrawn`: entries that no longer exist, so their
    units have no matches.
    """
    doubts_apart = run.doubts_independently
    is_apart = doubts_apart or run.wiring.possible_apart
    only = new_entry if is_apart and not is_exchanged else None
    units: list[MatchUnit] = []
    for key in sorted(anchors):
        if anchors[key] not in withdrawn:
            units.append(evaluate(run, anchors[key], only))
        elif key in run.units:
            unit = run.units[key]
            if run.wiring.starts_wait:
                run.wait(unit, frozenset())
            unit.replace({}, run.agenda.frontier_ns)
            units.append(unit)
    if new_entry is not None and doubts_apart:
        units += _put_in_doubt(run, new_entry, anchors)
    return units


def evaluate(run: Run, anchor: Entry, new_entry: Entry | None = None) -> MatchUnit:
    """Evaluate the unit of this anchor, and return it.

    `new_entry`: the entry, already in the indexes, that alone may have put the unit's matches
    in doubt; None if others may have done so too.
    """
    query, place = run.query, run.place
    if query.shape.looks_back:
        query.environment.neighbours.set_events(place.everything, query.within_ns)
    unit = run.units.get(anchor.key)
    evaluation = _matches_of(run, anchor, unit, new_entry)
    if unit is None:
        unit = MatchUnit(anchor, run)
    # An anchor that is a match of another query may have been replaced by a new entry.
    unit.anchor = anchor
    if query.shape.looks_on and evaluation.matches:
        evaluation.waits = None
        lasts_ns = [match.last.time_ns for match in evaluation.matches]
        evaluation.hi_ns = max(evaluation.hi_ns, max(lasts_ns) + query.within_ns)
    unit.hi_ns = evaluation.hi_ns
    if run.wiring.starts_wait:
        run.wait(unit, evaluation.waits)
    unit.overflowed = unit.overflowed or evaluation.overflow
    found: dict[str, FoundMatch] = {}
    for match in evaluation.matches:
        since_ns = run.wiring.since_ns
        if match.first.time_ns < since_ns:
            continue
        id_ = run.id_of(match)
        found[id_] = _make_match(run, id_, match, unit, new_entry)
        reads_unsure = run.wiring.reads_matches and query.grading and _has_uncertain_member(match)
        # Matches from before `since_ns` are unknown. Such a match might drop this one, or one
        # that would drop this one.
        may_be_skipped = query.shape.skips and since_ns > BEFORE_ALL_TIME
        if reads_unsure or may_be_skipped:
            found[id_].confidence = UNCERTAIN
    unit.replace(found, run.agenda.frontier_ns)
    if unit.found or unit.emitted or unit.overflowed or unit.waits != frozenset():
        run.units[anchor.key] = unit
        if run.doubts_independently:
            run.sure.note(unit.anchor.key, unit.found.values())
    return unit


def _matches_of(
    run: Run, anchor: Entry, unit: MatchUnit | None, new_entry: Entry | None
) -> Evaluation:
    query = run.query
    if query.sets is not None:
        return query.sets.evaluate(run.place, anchor, run.wiring.since_ns)
    if query.possible is not None and run.doubt.error_ns:
        return _find_possible(run, query.possible, anchor, unit, new_entry)
    return query.tactic.evaluate(run.place, anchor)


def _find_possible(
    run: Run, possible: Possible, anchor: Entry, unit: MatchUnit | None, new_entry: Entry | None
) -> Evaluation:
    error_ns, place = run.doubt.error_ns, run.place
    if new_entry is anchor or run.searched_ns.get(anchor.key) != error_ns:
        new_entry = None
    before = [] if unit is None else [found.match for found in unit.found.values()]
    evaluation = possible.evaluate(place, anchor, error_ns, before, new_entry)
    if possible.each_apart and not evaluation.overflow:
        run.searched_ns[anchor.key] = error_ns
    else:
        run.searched_ns.pop(anchor.key, None)
    return evaluation


def _make_match(
    run: Run, id_: str, match: Match, unit: MatchUnit, new_entry: Entry | None
) -> FoundMatch:
    """Return the match with its confidence; a decided match is not graded.

    `unit`: the unit with the matches found before this evaluation.
    """
    error_ns, grading = run.doubt.error_ns, run.query.grading
    decided_ns, known = run.query.decided_ns(match), unit.found.get(id_)
    if not error_ns or grading is None:
        is_settled = run.query.settles and unit.hi_ns < decided_ns
        return FoundMatch(match, unit.hi_ns if is_settled else decided_ns)
    decided_ns = run.doubt.decided_ns(decided_ns)
    if decided_ns < run.agenda.frontier_ns:
        return FoundMatch(match, decided_ns)
    if known is None or new_entry is None or not _is_same_match(known.match, match):
        confidence = grading.confidence(run.place, match)
    else:
        confidence = _confidence_of(run, grading, known, new_entry)
    return FoundMatch(match, decided_ns, confidence, error_ns)


def _confidence_of(run: Run, grading: Grading, found: FoundMatch, new_entry: Entry) -> str:
    """Return the confidence of a match that was found before `new_entry` arrived.

    An uncertain match stays uncertain. A certain match is tested against `new_entry` alone, or
    against all events if errors have grown since it was graded.
    """
    if found.confidence == UNCERTAIN:
        return UNCERTAIN
    if found.graded_ns != run.doubt.error_ns:
        return grading.confidence(run.place, found.match)
    return CONFIRMED if grading.is_still_confirmed(run.place, found.match, new_entry) else UNCERTAIN


def _put_in_doubt(run: Run, new_entry: Entry, evaluated: Container[Key]) -> list[MatchUnit]:
    """Lower the confidence of matches outside `evaluated` that `new_entry` puts in doubt.

    Return their units. Nothing is retracted; the confidence of the results is updated.
    """
    grading, doubted = run.query.grading, []
    if grading is None:
        return []
    for key in run.sure.find_around(new_entry, run.query.span_ns):
        unit = run.units[key]
        if key in evaluated or not unit.is_undecided(new_entry.time_ns):
            continue
        if _is_put_in_doubt(run, grading, unit, new_entry):
            run.sure.note(unit.anchor.key, unit.found.values())
            doubted.append(unit)
    return doubted


def _is_put_in_doubt(run: Run, grading: Grading, unit: MatchUnit, new_entry: Entry) -> bool:
    error_ns, changed = run.doubt.error_ns, False
    for id_, found in list(unit.found.items()):
        if found.confidence == UNCERTAIN or found.decided_ns < run.agenda.frontier_ns:
            continue
        if _confidence_of(run, grading, found, new_entry) == UNCERTAIN:
            changed = True
            unit.found[id_] = FoundMatch(found.match, found.decided_ns, UNCERTAIN, error_ns)
        else:
            found.graded_ns = error_ns
    return changed


def delay_decisions(run: Run, by_ns: int) -> None:
    """Delay the decision of open matches by `by_ns`, because errors are larger than before."""
    if run.query.grading is None:
        return
    switch_to_general(run)
    for unit in run.units.values():
        unit.delay_decisions(by_ns, run.agenda.frontier_ns)
        if run.doubts_independently:
            run.sure.note(unit.anchor.key, unit.found.values())
        if unit.emitted:
            run.mark_changed(unit.anchor)


def _is_same_match(was: Match, now: Match) -> bool:
    """Return whether both are the same match, found by only one alternative.

    If several alternatives find it, their number may have changed.
    """
    return type(was) is type(now) is Match and was.is_same_as(now)


def _has_uncertain_member(match: Match) -> bool:
    """Return whether one of the match's events is itself an uncertain match."""
    return any(not entry.is_sure for entries in match.bound for entry in entries)


# -- the plain way ---------------------------------------------------------------------------------


def follow(
    run: Run, entry: Entry, filters: Sequence[int], *, in_order: bool
) -> Sequence[Change] | None:
    """Process the entry the plain way, and return the changes, or None if that is impossible.

    The entry is already in the indexes.
    """
    walks = run.walks
    if walks is None:
        return None
    if walks.steps.is_tested and walks.is_beyond:
        switch_to_general(run)
        return None
    taken = walks.follow(entry, filters) if in_order else walks.insert_late(entry, filters)
    if not taken:
        return NO_CHANGES
    changes: list[Change] = []
    for each in taken:
        unit = find_unit(run, walks, each[0])
        if in_order and not unit.emitted:
            # The first result of a unit is new, and cannot be decided yet.
            id_, found = _make_walk_match(run, walks, each)
            unit.found[id_] = found
            unit.emitted[id_] = CurrentResult(found, 0, live=True)
            run.mark_changed(unit.anchor)
            changes.append(Change(run, EMIT, id_, 0, found, found, final=False))
        else:
            _settle_walk(run, walks, unit, each)
            changes += emit_unit(run, unit, unit.found)
    return changes


def switch_to_general(run: Run) -> None:
    """Switch to the general way: each unit waits for the entries that its walk waited for."""
    walks, run.walks = run.walks, None
    if walks is None:
        return
    for taken in walks.walks.values():
        unit = find_unit(run, walks, taken[0])
        unit.hi_ns, waits = walks.evaluate(taken)
        if run.wiring.starts_wait:
            run.wait(unit, waits)


def find_unit(run: Run, walks: FollowedWalks, anchor: Entry) -> MatchUnit:
    """Return the unit of this start, and create it if there is none.

    A unit exists for every walk that has ever been complete. Its matches that were decided at the
    last purge are removed here. This is cheaper than a purge that looks at all units.
    """
    unit = run.units.get(anchor.key)
    if unit is None:
        unit = run.units[anchor.key] = MatchUnit(anchor, run)
    elif unit.emitted or unit.found:
        unit.forget(walks.over_ns)
    return unit


def walk_again(run: Run, walks: FollowedWalks, anchor: Entry) -> MatchUnit:
    """Walk again from this start, and return its unit, not stored if it cannot change."""
    taken = walks.walk_again(anchor)
    if taken is None:
        return MatchUnit(anchor, run)
    unit = find_unit(run, walks, anchor)
    _settle_walk(run, walks, unit, taken)
    if run.wiring.starts_wait and not unit.found and not walks.waits(taken):
        run.units.pop(anchor.key, None)
    return unit


def _settle_walk(run: Run, walks: FollowedWalks, unit: MatchUnit, taken: Taken) -> None:
    """Update the walk's unit with the walk's match, if the walk is complete."""
    found = dict([_make_walk_match(run, walks, taken)] if len(taken) == walks.steps.count else [])
    unit.replace(found, run.agenda.frontier_ns)


def _make_walk_match(run: Run, walks: FollowedWalks, taken: Taken) -> tuple[str, FoundMatch]:
    match = walks.steps.match(taken)
    return run.id_of(match), FoundMatch(match, run.query.decided_ns(match))
