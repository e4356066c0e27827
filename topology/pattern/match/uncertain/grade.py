"""How sure a match is: *confirmed* if it is one wherever the true times are, else *uncertain*.

Source: patterns.md 7. What makes a match uncertain: the order of its events; its window; an event
that may be in the gap of a negation; one that may be taken instead (STRICT, NEXT, MATCHES ONE); a
condition on `.time`, or on the order in a group; and one that may belong to it as well (MAXIMAL,
ONE), so that in some world another set of events is the match. SKIP is left out: it
chooses by reference times.

Sound: a match in doubt is never confirmed. Not complete: where several doubts exclude each other
the match stays uncertain.

What puts a match in doubt is asked of each event around by itself. So one that is in doubt stays
so whatever else comes, and of one that was sure only the newcomer is asked (`still_holds`). Not so
where a third event may come between (STRICT), or end a group (UNTIL).

Cost of a match: O(members) for order and window where they are sure; a cut by time for each
negation; for the rest O(members) for each event around that its components are of.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from topology.model.result import CONFIRMED, UNCERTAIN
from topology.pattern.compile.grading import MAYBE, NO, YES
from topology.pattern.match.evaluation import Place
from topology.pattern.match.layout import Layout
from topology.pattern.match.match import Match
from topology.pattern.match.uncertain.case import Case
from topology.pattern.match.uncertain.forbidding import blocked, ended, taken_otherwise
from topology.pattern.match.uncertain.joining import joined, may_join
from topology.pattern.match.uncertain.order import at_most, before_by_key, is_settled, negated
from topology.pattern.store.entry import Entry
from topology.pattern.store.index import EntryIndex


class Grading:
    """Grades the matches of one query."""

    def __init__(self, layouts: Sequence[Layout]) -> None:
        self.layouts = layouts

    def confidence(self, place: Place, match: Match) -> str:
        """The match is one by reference times, or a possible one."""
        case = Case(self.layouts[match.alternative], place, match.bound)
        if not is_sure(case):
            return UNCERTAIN
        grade = YES
        if case.layout.matches == "maximal":
            grade = negated(joined(case))
        if grade == YES and case.layout.matches == "one" and len(self.layouts) > 1:
            grade = min(grade, self._is_first_of_all(case))
        return CONFIRMED if grade == YES else UNCERTAIN

    def still_holds(self, place: Place, match: Match, newcomer: Entry) -> bool:
        """Is a match still sure that was so before the newcomer, which is no member? Without STRICT
        and UNTIL."""
        layout = self.layouts[match.alternative]
        alone = Case(layout, place, match.bound, newcomer)
        if any(forbids(alone) != NO for forbids in (blocked, taken_otherwise)):
            return False
        if layout.matches == "maximal" and may_join(alone):
            return joined(Case(layout, place, match.bound)) == NO
        if layout.matches == "one" and len(self.layouts) > 1:
            return self._is_first_of_all(Case(layout, place, match.bound)) == YES
        return True

    def _is_first_of_all(self, case: Case) -> int:
        """May the walk of another alternative end before?"""
        for layout in self.layouts:
            if layout.number != case.layout.number and _may_walk(case, layout):
                entries = {entry for each in self.layouts for entry in _relevant(case, each)}
                timed = any(c.looks_at_time for each in self.layouts for c in each.clauses)
                if timed or not is_settled(entries) or not _is_cut(entries, layout.within_ns):
                    return MAYBE
        return YES


def valid(case: Case, *, is_nominal: bool) -> int:
    """As a match, whatever of MAXIMAL. `is_nominal`: its conditions hold by reference times."""
    grade = min(case.order(), case.window())
    if grade > NO:
        grade = min(grade, case.conditions(is_nominal=is_nominal))
    for forbids in (ended, taken_otherwise, blocked):
        if grade > NO:
            grade = min(grade, negated(forbids(case)))
    return grade


def is_sure(case: Case) -> bool:
    """Whether `valid` says YES of a match whose conditions hold by reference times. What puts it in
    doubt most often, and costs least, is asked first, and nothing after the first doubt."""
    return (
        case.order() == YES
        and case.window() == YES
        and case.conditions(is_nominal=True) == YES
        and all(forbids(case) == NO for forbids in (blocked, ended, taken_otherwise))
    )


def _may_walk(case: Case, layout: Layout) -> bool:
    """Is there an event for all that the alternative must have, by the end of the match?"""
    return all(
        layout.minimum[j] == 0
        or any(before_by_key(case.last, e) != YES for e in _since(case, index))
        for j, index in enumerate(case.place.components[layout.number])
    )


def _is_cut(entries: set[Entry], within_ns: int) -> bool:
    """Does the window leave no doubt, wherever it begins?"""
    return all(at_most(one, other, within_ns) != MAYBE for one in entries for other in entries)


def _relevant(case: Case, layout: Layout) -> Iterator[Entry]:
    """What the alternative's walk from the first event may depend on."""
    within_ns, place = layout.within_ns, case.place
    for index in place.components[layout.number]:
        yield from _since(case, index)
    for gap, index in zip(layout.gaps, place.blockers[layout.number], strict=True):
        yield from _since(case, index)
        for each in (index, place.everything) if gap.strict else (index,):
            if each is not None and all(layout.minimum[j] == 0 for j in gap.left):
                found = case.around(each, case.first.time_ns - within_ns, case.first.time_ns)
                yield from (e for e in found if at_most(case.first, e, within_ns))
    if place.everything is not None:
        yield from _since(case, place.everything)


def _since(case: Case, index: EntryIndex) -> Iterator[Entry]:
    """Events that may be in the window that the first event begins."""
    first, within_ns = case.first, case.layout.within_ns
    for entry in case.around(index, first.time_ns, first.time_ns + within_ns):
        if before_by_key(entry, first) != YES and at_most(entry, first, within_ns):
            yield entry
