"""What a unit comes to: evaluated anew from the indexes, or, in the plain case, by a walk followed.

Both ways find the same, byte for byte. The plain one (`match.tactics.followed`) is open where the
query is a plain sequence without SKIP, results are emitted when found and not once more when final,
no target is waited for, and no time is unsure. When the first unsure one comes, or an index grows
beyond what one evaluation may look through, a run goes the general way from then on
(`Run.give_up`).

Where events have errors, each match is graded: CONFIRMED or UNCERTAIN. Mostly an event puts sure
matches in doubt by itself (`Affected.doubts_apart`), where its true time and a member's may be no
more than a window apart (`SureUnits`).
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
    """The general way of one run."""

    __slots__ = ("_affected", "_at", "_known", "_sure", "starts_wait")

    def __init__(self, at: PartitionQuery, affected: Affected) -> None:
        self._at = at
        self._affected = affected
        self._sure = SureUnits()
        self._known: dict[Key, int] = {}  # errors with which all possible matches were found
        self.starts_wait = at.query.query.matches in FROM_START and not at.query.shape.by_end

    def evaluate(self, anchor: Entry, newcomer: Entry | None = None) -> MatchUnit:
        """The unit of this anchor, evaluated anew. `newcomer`: the entry that changes it, in the
        indexes already, where it alone may put others in doubt."""
        query, place = self._at.query, self._at.place
        if query.shape.looks_back:
            query.environment.neighbours.look_at(place.everything, query.within_ns)
        unit = self._at.units.get(anchor.key)
        evaluation = self._matches_of(anchor, unit, newcomer)
        if unit is None:
            unit = MatchUnit(anchor, self._at.owner)
        unit.anchor = anchor  # a match that is an event may be replaced
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
            found[id_] = self._found(id_, match, unit, newcomer)
            reads_unsure = self._at.context.reads_matches and query.grading and _has_unsure(match)
            # A match from before the query began might skip what it finds, and so on.
            may_be_skipped = query.shape.skips and since_ns > BEFORE_ALL_TIME
            if reads_unsure or may_be_skipped:
                found[id_].confidence = UNCERTAIN
        unit.replace(found, self._at.now.frontier_ns)
        if unit.found or unit.emitted or unit.overflowed or unit.waits != frozenset():
            self._at.units[anchor.key] = unit
            if self._affected.doubts_apart:
                self._sure.note(unit)
        return unit

    def _matches_of(
        self, anchor: Entry, unit: MatchUnit | None, newcomer: Entry | None
    ) -> Evaluation:
        query = self._at.query
        if query.sets is not None:
            return query.sets.evaluate(self._at.place, anchor, self._at.wiring.since_ns)
        if query.possible is not None and self._at.doubt.error_ns:
            return self._possible(query.possible, anchor, unit, newcomer)
        return query.tactic.evaluate(self._at.place, anchor)

    def _possible(
        self, possible: Possible, anchor: Entry, unit: MatchUnit | None, newcomer: Entry | None
    ) -> Evaluation:
        error_ns, place = self._at.doubt.error_ns, self._at.place
        if newcomer is anchor or self._known.get(anchor.key) != error_ns:
            newcomer = None
        before = [] if unit is None else [found.match for found in unit.found.values()]
        evaluation = possible.evaluate(place, anchor, error_ns, before, newcomer)
        if possible.each_apart and not evaluation.overflow:
            self._known[anchor.key] = error_ns
        else:
            self._known.pop(anchor.key, None)
        return evaluation

    # -- how sure it is -----------------------------------------------------------------------

    def _found(self, id_: str, match: Match, unit: MatchUnit, newcomer: Entry | None) -> FoundMatch:
        """With how sure it is; of what is decided nobody will ask. `unit`: with what was found by
        the same id before the newcomer."""
        error_ns, grading = self._at.doubt.error_ns, self._at.query.grading
        decided_ns, known = self._at.query.decided_ns(match), unit.found.get(id_)
        if not error_ns or grading is None:
            is_settled = self._at.query.settles and unit.hi_ns < decided_ns
            return FoundMatch(match, unit.hi_ns if is_settled else decided_ns)
        decided_ns = self._at.doubt.decided_ns(decided_ns)
        if decided_ns < self._at.now.frontier_ns:
            return FoundMatch(match, decided_ns)
        if known is None or newcomer is None or not _is_still(known.match, match):
            confidence = grading.confidence(self._at.place, match)
        else:
            confidence = self._confidence_of(grading, known, newcomer)
        return FoundMatch(match, decided_ns, confidence, error_ns)

    def _confidence_of(self, grading: Grading, found: FoundMatch, newcomer: Entry) -> str:
        """How sure a match is that was there before the newcomer. A doubt stays; a sure one is
        asked about the newcomer, and about all where errors have grown since it was asked."""
        if found.confidence == UNCERTAIN:
            return UNCERTAIN
        if found.graded_ns != self._at.doubt.error_ns:
            return grading.confidence(self._at.place, found.match)
        return (
            CONFIRMED if grading.still_holds(self._at.place, found.match, newcomer) else UNCERTAIN
        )

    def put_in_doubt(self, newcomer: Entry, evaluated: Container[Key]) -> list[MatchUnit]:
        """Return the units, but for those evaluated, of which something is sure no more. That
        retracts nothing: it updates the confidence."""
        grading, doubted = self._at.query.grading, []
        if grading is None:
            return []
        for unit in self._sure.around(newcomer, self._at.query.span_ns):
            if unit.anchor.key in evaluated or not unit.is_undecided(newcomer.time_ns):
                continue
            if self._is_put_in_doubt(grading, unit, newcomer):
                self._sure.note(unit)
                doubted.append(unit)
        return doubted

    def _is_put_in_doubt(self, grading: Grading, unit: MatchUnit, newcomer: Entry) -> bool:
        error_ns, changed = self._at.doubt.error_ns, False
        for id_, found in list(unit.found.items()):
            if found.confidence == UNCERTAIN or found.decided_ns < self._at.now.frontier_ns:
                continue
            if self._confidence_of(grading, found, newcomer) == UNCERTAIN:
                changed = True
                unit.found[id_] = FoundMatch(found.match, found.decided_ns, UNCERTAIN, error_ns)
            else:
                found.graded_ns = error_ns
        return changed

    def put_off(self, by_ns: int) -> None:
        """Errors are larger than it seemed."""
        for unit in self._at.units.values():
            unit.put_off(by_ns, self._at.now.frontier_ns)
            if self._affected.doubts_apart:
                self._sure.note(unit)

    def forget(self, anchor: Entry) -> None:
        """The unit of this anchor is no more."""
        self._sure.drop(anchor.key)
        self._known.pop(anchor.key, None)


def _is_still(was: Match, now: Match) -> bool:
    """Is it the same match, found by one alternative alone? By how many may have changed."""
    return type(was) is type(now) is Match and was.is_as(now)


def _has_unsure(match: Match) -> bool:
    """Is one of its events an uncertain match?"""
    return any(not entry.is_sure for entries in match.bound for entry in entries)


class PlainWay:
    """The plain way of one run: its walks are followed, and its units are those of walks that were
    complete at some time."""

    __slots__ = ("_at", "walks")

    def __init__(self, at: PartitionQuery, steps: Steps) -> None:
        self._at = at
        self.walks = FollowedWalks(steps, at.wiring.components, at.wiring.since_ns, at.place)

    def found(self, taken: Taken) -> tuple[str, FoundMatch]:
        """The match of a complete walk, with its id."""
        match = self.walks.steps.match(taken)
        return self._at.id_of(match), FoundMatch(match, self._at.query.decided_ns(match))

    def unit_of(self, anchor: Entry) -> MatchUnit:
        """Return the unit of this start, and make it if there is none. What was decided when the
        run last forgot is let go of here, as a purge that looked at all units would cost most."""
        unit = self._at.units.get(anchor.key)
        if unit is None:
            unit = self._at.units[anchor.key] = MatchUnit(anchor, self._at.owner)
        elif unit.emitted or unit.found:
            unit.forget(self.walks.over_ns)
        return unit

    def settled(self, taken: Taken) -> MatchUnit:
        """The unit of a walk, which has what the walk comes to."""
        unit, found = self.unit_of(taken[0]), {}
        if len(taken) == self.walks.steps.count:
            id_, match = self.found(taken)
            found[id_] = match
        unit.replace(found, self._at.now.frontier_ns)
        return unit

    def walked(self, anchor: Entry, *, starts_wait: bool) -> MatchUnit:
        """The unit of this start, walked from its beginning; it is not kept if it is over."""
        taken = self.walks.walk(anchor)
        if taken is None:
            return MatchUnit(anchor, self._at.owner)
        unit = self.settled(taken)
        if starts_wait and not unit.found and not self.walks.waits(taken):
            self._at.units.pop(anchor.key, None)
        return unit

    def hand_over(self, affected: Affected, *, starts_wait: bool) -> None:
        """To the general way: from now on units wait for what their walks waited for."""
        for taken in self.walks.walks.values():
            unit = self.unit_of(taken[0])
            unit.hi_ns, waits = self.walks.evaluated(taken)
            if starts_wait:
                affected.wait(unit, waits)
