"""Grades a match: *confirmed* if it is a match for all possible event times, else *uncertain*.

These may make a match uncertain:

- the order of its events, or its window;
- an event that may be in the gap of a negation;
- an event that may be taken instead (STRICT, NEXT, MATCHES ONE);
- a condition on `.time`, or on the order in a group;
- an event that may also belong to it (MAXIMAL, ONE), so that in some world another set of events
  is the match.

SKIP is not considered: it chooses by corrected timestamps.

The grade is sound: a match in doubt is never confirmed. It is not complete: if several doubts
exclude each other, the match stays uncertain.

Each event around the match is tested by itself. So a match in doubt stays in doubt whatever else
arrives. For a match that was certain, only the new event is tested (`is_still_confirmed`). This
does not apply if a third event may come between (STRICT), or may end a group (UNTIL).

Cost of a match: O(members) for order and window if they are certain, and a range query by time for
each negation. The rest costs O(members) for each event around it in the indexes of its components.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from topology.base.result import CONFIRMED, UNCERTAIN
from topology.queries.pattern.compile.grading import MAYBE, NO, YES
from topology.queries.pattern.match.evaluation import Place
from topology.queries.pattern.match.layout import Layout
from topology.queries.pattern.match.match import Match
from topology.queries.pattern.match.uncertain.case import Case, can_join_members
from topology.queries.pattern.match.uncertain.forbidding import (
    grade_blocked,
    grade_ended,
    grade_other_choice,
)
from topology.queries.pattern.match.uncertain.order import (
    grade_before_by_key,
    grade_within,
    is_order_certain,
    negate,
)
from topology.queries.pattern.store.entry import Entry
from topology.queries.pattern.store.index import EntryIndex
from topology.queries.pattern.tree.normal_form import has_choice


class Grading:
    """A grader of the matches of one query."""

    def __init__(self, layouts: Sequence[Layout]) -> None:
        self.layouts = layouts
        self._prefers = layouts[0].matches == "best" and has_choice(
            [each.alternative for each in layouts]
        )

    def confidence(self, place: Place, match: Match) -> str:
        """Return the confidence of a match by corrected timestamps, or of a possible match.

        If several alternatives find it, it is confirmed if the grade of one of them is YES.
        """
        for way in match.ways():
            case = Case(self.layouts[way.alternative], place, way.bound)
            if is_sure(case) and self._grade_choice(case) == YES:
                return CONFIRMED
        return UNCERTAIN

    def is_still_confirmed(self, place: Place, match: Match, new_entry: Entry) -> bool:
        """Return whether a confirmed match stays confirmed with the new event, which is no member.

        This is for alternatives without STRICT and UNTIL.
        """
        if type(match) is not Match:
            return self.confidence(place, match) == CONFIRMED
        layout = self.layouts[match.alternative]
        alone = Case(layout, place, match.bound, new_entry)
        if any(forbids(alone) != NO for forbids in (grade_blocked, grade_other_choice)):
            return False
        if layout.matches == "maximal" and next(_find_joining(alone), None) is None:
            return True
        alone.only = None  # All events are considered from here on.
        return self._grade_choice(alone) == YES

    def _grade_choice(self, case: Case) -> int:
        """Grade whether the query would choose this match among all matches."""
        if case.layout.matches == "maximal":
            return negate(grade_joined(case))
        is_contested = self._prefers
        if case.layout.matches == "one":  # The walk of another alternative may end earlier.
            others = [layout for layout in self.layouts if layout is not case.layout]
            is_contested = any(_may_reach_minimum(case, layout) for layout in others)
        return self._grade_start(case) if is_contested else YES

    def _grade_start(self, case: Case) -> int:
        """Grade whether event times confirm the choice among the matches of this start.

        They do if they agree with corrected timestamps on everything that the choice depends on.
        """
        clauses = [clause for each in self.layouts for clause in each.clauses]
        if any(clause.looks_back for clause in clauses):
            return MAYBE
        entries = {entry for each in self.layouts for entry in _find_relevant(case, each)}
        if all(entry.low_ns == entry.high_ns for entry in entries):
            return YES
        timed = any(clause.looks_at_time for clause in clauses)
        if (
            timed
            or not is_order_certain(entries)
            or not _has_certain_window(entries, case.layout.within_ns)
        ):
            return MAYBE
        return YES


def grade_validity(case: Case, *, is_nominal: bool) -> int:
    """Grade whether the match is valid, without regard to MAXIMAL.

    `is_nominal`: whether its conditions hold by corrected timestamps.
    """
    worst = YES
    for grade in _grade_requirements(case, is_nominal=is_nominal):
        worst = min(worst, grade)
        if worst == NO:
            break
    return worst


def is_sure(case: Case) -> bool:
    """Return whether `valid` is YES for a match whose conditions hold by corrected timestamps.

    The cheapest and most frequent doubts are tested first, and the tests end at the first doubt.
    """
    return all(grade == YES for grade in _grade_requirements(case, is_nominal=True))


def _grade_requirements(case: Case, *, is_nominal: bool) -> Iterator[int]:
    yield case.order()
    yield case.window()
    yield case.conditions(is_nominal=is_nominal)
    for forbids in (grade_blocked, grade_ended, grade_other_choice):
        yield negate(forbids(case))


def _may_reach_minimum(case: Case, layout: Layout) -> bool:
    """Return whether every component of `layout` may have its minimum when the match ends."""
    return all(
        sum(grade_before_by_key(case.last, entry) != YES for entry in _find_in_window(case, index))
        >= layout.minimum[j]
        for j, index in enumerate(case.place.components[layout.number])
    )


def _has_certain_window(entries: set[Entry], within_ns: int) -> bool:
    """Return whether it is certain for every two entries if they are within one window."""
    return all(grade_within(one, other, within_ns) != MAYBE for one in entries for other in entries)


def _find_relevant(case: Case, layout: Layout) -> Iterator[Entry]:
    """Yield the entries that the alternative's walk from the first event may depend on."""
    within_ns, place = layout.within_ns, case.place
    for index in place.indexes(layout.number):
        yield from _find_in_window(case, index)
    for gap, index in zip(layout.gaps, place.blockers[layout.number], strict=True):
        if gap.at_start:
            for each in (index, place.everything) if gap.strict else (index,):
                found = case.find_around(each, case.first.time_ns - within_ns, case.first.time_ns)
                yield from (e for e in found if grade_within(case.first, e, within_ns))


def _find_in_window(case: Case, index: EntryIndex) -> Iterator[Entry]:
    """Yield the events that may be in the window that starts with the first event."""
    first, within_ns = case.first, case.layout.within_ns
    for entry in case.find_around(index, first.time_ns, first.time_ns + within_ns):
        if grade_before_by_key(entry, first) != YES and grade_within(entry, first, within_ns):
            yield entry


# -- MATCHES MAXIMAL: events that may belong to a match as well ------------------------------------


def grade_joined(case: Case) -> int:
    """Grade for MATCHES MAXIMAL whether another event may belong to the match in some world.

    An event may belong to it if it fits with each member by itself: by order, by window, and by the
    conditions on each element. That does not suffice if conditions read the order in a group
    (`b[i].x > b[i-1].x`). Then corrected timestamps decide, if the order of all events in question
    is certain.
    """
    layout = case.layout
    ordered: set[Entry] = set()
    for j, entry in _find_joining(case):
        if (
            layout.untils[j] is None
            and layout.minimum[j] <= len(case.bound[j]) + 1
            and all(clause.for_each for clause in layout.clauses if j in clause.aliases)
        ):
            return NO if _has_exact_times(case) else MAYBE
        ordered.add(entry)
    is_sure = not ordered or _is_same_in_all_worlds(case, ordered) or _has_exact_times(case)
    return NO if is_sure else MAYBE


def _has_exact_times(case: Case) -> bool:
    """Return whether all events that the match may depend on have exact times.

    Then corrected timestamps decide about the match.
    """
    place, layout = case.place, case.layout
    indexes = place.indexes(layout.number)
    indexes += [case.enders(j) for j, until in enumerate(layout.untils) if until is not None]
    low_ns, high_ns = case.first.time_ns - layout.span_ns, case.last.time_ns + layout.span_ns
    return all(
        entry.low_ns == entry.high_ns
        for index in indexes
        for entry in case.find_around(index, low_ns, high_ns)
    )


def _find_joining(case: Case) -> Iterator[tuple[int, Entry]]:
    """Yield the events that may join the match, each by itself, with their components."""
    since_ns = case.last.time_ns - case.layout.within_ns
    for j in range(case.layout.count):
        if len(case.bound[j]) < case.layout.maximum[j]:
            for entry in case.find_around(case.component_index(j), since_ns, case.last.time_ns):
                if entry not in case.slots_of and _may_join(case, entry, j):
                    yield j, entry


def _may_join(case: Case, entry: Entry, j: int) -> bool:
    layout = case.layout
    if not any(grade_before_by_key(entry, one) for one in case.members):
        return False  # The event would be the end of the match.
    if not can_join_members(layout, case.bound, entry, j):
        return False
    bound = [*case.bound]
    bound[j] = [entry]
    return not any(
        layout.grade_clause(clause, bound) == NO
        for clause in layout.clauses
        if j in clause.aliases and clause.for_each
    )


def _is_same_in_all_worlds(case: Case, others: set[Entry]) -> bool:
    layout, entries = case.layout, [*case.members, *others]
    if any(it is not None and it.looks_at_time for it in (*layout.clauses, *layout.untils)):
        return False
    low_ns = min(entry.low_ns for entry in entries)
    high_ns = max(entry.high_ns for entry in entries)
    return high_ns - low_ns <= layout.within_ns and is_order_certain(entries)
