"""Finds the matches of a unit: the general way evaluates it again, the plain way follows its walk.

Both ways find exactly the same matches. The plain way needs a plain sequence
(`match.tactics.followed`) whose results are emitted when found, and not once more when final. A run
switches to the general way for good (`Run.give_up`) at the first inexact time, unless the query
ignores time errors. It also switches if the indexes grow beyond the entries that one evaluation may
examine.

If events have time errors, each match is graded: CONFIRMED or UNCERTAIN. For most queries, each
event puts certain matches in doubt independently of all others (`Affected.doubts_apart`). It can do
so only if it and a member may have happened at most a window apart (`SureUnits`).
"""

from __future__ import annotations

from collections.abc import Container

from topology.model.result import CONFIRMED, UNCERTAIN
from topology.pattern.match.evaluation import Evaluation
from topology.pattern.match.match import Match
from topology.pattern.match.tactics.followed import FollowedWalks, Steps, Taken
from topology.pattern.match.uncertain.grade import Grading
from topology.pattern.match.uncertain.possible import Possible
from topology.pattern.run.affect import Affected, SureUnits
from topology.pattern.run.query import PartitionQuery
from topology.pattern.run.unit import BEFORE_ALL_TIME, FoundMatch, MatchUnit
from topology.pattern.store.entry import Entry, Key
from topology.pattern.tree.syntax import FROM_START


class Evaluator:
    """The general way of one run: each change evaluates a unit again from the indexes."""

    __slots__ = ("_affected", "_at", "_known", "_sure", "starts_wait")

    def __init__(self, at: PartitionQuery, affected: Affected) -> None:
        self._at = at
        self._affected = affected
        self._sure = SureUnits()
        # The largest error for which a unit's possible matches were all found, by the anchor's key.
        self._known: dict[Key, int] = {}
        self.starts_wait = at.query.query.matches in FROM_START and not at.query.shape.by_end

    def evaluate(self, anchor: Entry, new_entry: Entry | None = None) -> MatchUnit:
        """Evaluate the unit of this anchor, and return it.

        `new_entry`: the entry, already in the indexes, that alone may have put the unit's matches
        in doubt; None if others may have done so too.
        """
        query, place = self._at.query, self._at.place
        if query.shape.looks_back:
            query.environment.neighbours.set_events(place.everything, query.within_ns)
        unit = self._at.units.get(anchor.key)
        evaluation = self._matches_of(anchor, unit, new_entry)
        if unit is None:
            unit = MatchUnit(anchor, self._at.owner)
        # An anchor that is a match of another query may have been replaced by a new entry.
        unit.anchor = anchor
        if query.shape.looks_on and evaluation.matches:
            evaluation.waits = None
            lasts_ns = [match.last.time_ns for match in evaluation.matches]
            evaluation.hi_ns = max(evaluation.hi_ns, max(lasts_ns) + query.within_ns)
        unit.hi_ns = evaluation.hi_ns
        if self.starts_wait:
            self._affected.wait(unit, evaluation.waits)
        if evaluation.overflow and not unit.overflowed:
            unit.overflowed = True
            self._at.emitter.note_overflow(self._at.query, unit)
        found: dict[str, FoundMatch] = {}
        for match in evaluation.matches:
            since_ns = self._at.wiring.since_ns
            if match.first.time_ns < since_ns:
                continue
            id_ = self._at.id_of(match)
            found[id_] = self._make_match(id_, match, unit, new_entry)
            reads_unsure = (
                self._at.context.reads_matches and query.grading and _has_uncertain_member(match)
            )
            # Matches from before `since_ns` are unknown. Such a match might drop this one, or one
            # that would drop this one.
            may_be_skipped = query.shape.skips and since_ns > BEFORE_ALL_TIME
            if reads_unsure or may_be_skipped:
                found[id_].confidence = UNCERTAIN
        unit.replace(found, self._at.now.frontier_ns)
        if unit.found or unit.emitted or unit.overflowed or unit.waits != frozenset():
            self._at.units[anchor.key] = unit
            if self._affected.doubts_independently:
                self._sure.note(unit)
        return unit

    def _matches_of(
        self, anchor: Entry, unit: MatchUnit | None, new_entry: Entry | None
    ) -> Evaluation:
        query = self._at.query
        if query.sets is not None:
            return query.sets.evaluate(self._at.place, anchor, self._at.wiring.since_ns)
        if query.possible is not None and self._at.doubt.error_ns:
            return self._find_possible(query.possible, anchor, unit, new_entry)
        return query.tactic.evaluate(self._at.place, anchor)

    def _find_possible(
        self, possible: Possible, anchor: Entry, unit: MatchUnit | None, new_entry: Entry | None
    ) -> Evaluation:
        error_ns, place = self._at.doubt.error_ns, self._at.place
        if new_entry is anchor or self._known.get(anchor.key) != error_ns:
            new_entry = None
        before = [] if unit is None else [found.match for found in unit.found.values()]
        evaluation = possible.evaluate(place, anchor, error_ns, before, new_entry)
        if possible.each_apart and not evaluation.overflow:
            self._known[anchor.key] = error_ns
        else:
            self._known.pop(anchor.key, None)
        return evaluation

    # -- certainty --------------------------------------------------------------------------------

    def _make_match(
        self, id_: str, match: Match, unit: MatchUnit, new_entry: Entry | None
    ) -> FoundMatch:
        """Return the match with its confidence; a decided match is not graded.

        `unit`: the unit with the matches found before this evaluation.
        """
        error_ns, grading = self._at.doubt.error_ns, self._at.query.grading
        decided_ns, known = self._at.query.decided_ns(match), unit.found.get(id_)
        if not error_ns or grading is None:
            is_settled = self._at.query.settles and unit.hi_ns < decided_ns
            return FoundMatch(match, unit.hi_ns if is_settled else decided_ns)
        decided_ns = self._at.doubt.decided_ns(decided_ns)
        if decided_ns < self._at.now.frontier_ns:
            return FoundMatch(match, decided_ns)
        if known is None or new_entry is None or not _is_same_match(known.match, match):
            confidence = grading.confidence(self._at.place, match)
        else:
            confidence = self._confidence_of(grading, known, new_entry)
        return FoundMatch(match, decided_ns, confidence, error_ns)

    def _confidence_of(self, grading: Grading, found: FoundMatch, new_entry: Entry) -> str:
        """Return the confidence of a match that was found before `new_entry` arrived.

        An uncertain match stays uncertain. A certain match is tested against `new_entry` alone, or
        against all events if errors have grown since it was graded.
        """
        if found.confidence == UNCERTAIN:
            return UNCERTAIN
        if found.graded_ns != self._at.doubt.error_ns:
            return grading.confidence(self._at.place, found.match)
        return (
            CONFIRMED
            if grading.is_still_confirmed(self._at.place, found.match, new_entry)
            else UNCERTAIN
        )

    def put_in_doubt(self, new_entry: Entry, evaluated: Container[Key]) -> list[MatchUnit]:
        """Lower the confidence of matches outside `evaluated` that `new_entry` puts in doubt.

        Return their units. Nothing is retracted; the confidence of the results is updated.
        """
        grading, doubted = self._at.query.grading, []
        if grading is None:
            return []
        for unit in self._sure.find_around(new_entry, self._at.query.span_ns):
            if unit.anchor.key in evaluated or not unit.is_undecided(new_entry.time_ns):
                continue
            if self._is_put_in_doubt(grading, unit, new_entry):
                self._sure.note(unit)
                doubted.append(unit)
        return doubted

    def _is_put_in_doubt(self, grading: Grading, unit: MatchUnit, new_entry: Entry) -> bool:
        error_ns, changed = self._at.doubt.error_ns, False
        for id_, found in list(unit.found.items()):
            if found.confidence == UNCERTAIN or found.decided_ns < self._at.now.frontier_ns:
                continue
            if self._confidence_of(grading, found, new_entry) == UNCERTAIN:
                changed = True
                unit.found[id_] = FoundMatch(found.match, found.decided_ns, UNCERTAIN, error_ns)
            else:
                found.graded_ns = error_ns
        return changed

    def delay_decisions(self, by_ns: int) -> None:
        """Delay the decision of open matches by `by_ns`, because errors are larger than before."""
        for unit in self._at.units.values():
            unit.delay_decisions(by_ns, self._at.now.frontier_ns)
            if self._affected.doubts_independently:
                self._sure.note(unit)

    def forget(self, anchor: Entry) -> None:
        """Forget the data kept for the unit of this anchor."""
        self._sure.drop(anchor.key)
        self._known.pop(anchor.key, None)


def _is_same_match(was: Match, now: Match) -> bool:
    """Return whether both are the same match, found by only one alternative.

    If several alternatives find it, their number may have changed.
    """
    return type(was) is type(now) is Match and was.is_same_as(now)


def _has_uncertain_member(match: Match) -> bool:
    """Return whether one of the match's events is itself an uncertain match."""
    return any(not entry.is_sure for entries in match.bound for entry in entries)


class PlainWay:
    """The plain way of one run, which follows its walks.

    A unit exists for every walk that has ever been complete.
    """

    __slots__ = ("_at", "walks")

    def __init__(self, at: PartitionQuery, steps: Steps) -> None:
        self._at = at
        self.walks = FollowedWalks(steps, at.wiring.components, at.wiring.since_ns, at.place)

    def make_match(self, taken: Taken) -> tuple[str, FoundMatch]:
        """Return the match of a complete walk, and its id."""
        match = self.walks.steps.match(taken)
        return self._at.id_of(match), FoundMatch(match, self._at.query.decided_ns(match))

    def unit_of(self, anchor: Entry) -> MatchUnit:
        """Return the unit of this start, and create it if there is none.

        Its matches that were decided at the run's last `forget` are removed here. This is cheaper
        than a purge that looks at all units.
        """
        unit = self._at.units.get(anchor.key)
        if unit is None:
            unit = self._at.units[anchor.key] = MatchUnit(anchor, self._at.owner)
        elif unit.emitted or unit.found:
            unit.forget(self.walks.over_ns)
        return unit

    def settle(self, taken: Taken) -> MatchUnit:
        """Return the walk's unit, updated with the walk's match if the walk is complete."""
        unit, found = self.unit_of(taken[0]), {}
        if len(taken) == self.walks.steps.count:
            id_, match = self.make_match(taken)
            found[id_] = match
        unit.replace(found, self._at.now.frontier_ns)
        return unit

    def walk_again(self, anchor: Entry, *, starts_wait: bool) -> MatchUnit:
        """Walk again from this start, and return its unit, not stored if it cannot change."""
        taken = self.walks.walk_again(anchor)
        if taken is None:
            return MatchUnit(anchor, self._at.owner)
        unit = self.settle(taken)
        if starts_wait and not unit.found and not self.walks.waits(taken):
            self._at.units.pop(anchor.key, None)
        return unit

    def hand_over(self, affected: Affected, *, starts_wait: bool) -> None:
        """Switch to the general way: each unit waits for the entries that its walk waited for."""
        for taken in self.walks.walks.values():
            unit = self.unit_of(taken[0])
            unit.hi_ns, waits = self.walks.evaluate(taken)
            if starts_wait:
                affected.wait(unit, waits)
