"""Negations: is an event in a gap of the match that must not be there? surely, maybe, or not."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

from topology.pattern.compile.grading import MAYBE, NO, YES
from topology.pattern.match.layout import NegationGap
from topology.pattern.match.uncertain.case import Case
from topology.pattern.match.uncertain.order import at_most, before, before_by_key, negated
from topology.pattern.store.entry import Entry


def blocked(case: Case) -> int:
    worst = NO
    for number, gap in enumerate(case.layout.gaps):
        worst = max(worst, _blocked(case, number, gap))
        if worst == YES:
            break
    return worst


def _blocked(case: Case, number: int, gap: NegationGap) -> int:
    low = [entry for j in gap.left for entry in case.bound[j]]
    high = [entry for j in gap.right for entry in case.bound[j]]
    if not low and not high:
        return NO
    worst = MAYBE if gap.looks_at_time else NO
    for entry in _candidates(case, number, low, high):
        grade = _between(case, low, high, entry)
        if grade > worst and gap.strict:
            grade = min(grade, _is_next(case, low, high, entry))
        if grade > worst and (gap.ties or gap.own):
            grade = min(grade, _satisfies(case, gap, entry))
        worst = max(worst, grade)
        if worst == YES:
            break
    return worst


def _candidates(case: Case, number: int, low: list[Entry], high: list[Entry]) -> Iterable[Entry]:
    within_ns = case.layout.within_ns
    since_ns = min(e.time_ns for e in low) if low else case.first.time_ns - within_ns
    until_ns = max(e.time_ns for e in high) if high else case.last.time_ns + within_ns
    return case.around(case.place.blockers[case.layout.number][number], since_ns, until_ns)


def _between(case: Case, low: list[Entry], high: list[Entry], entry: Entry) -> int:
    """By reference time strictly, whatever TIES says; the ends of the window belong to it."""
    within_ns, members = case.layout.within_ns, case.members
    above = [before(one, entry) for one in low] or [
        at_most(one, entry, within_ns) for one in members
    ]
    below = [before(entry, one) for one in high] or [
        at_most(entry, one, within_ns) for one in members
    ]
    return min(chain(above, below))


def _is_next(case: Case, low: list[Entry], high: list[Entry], entry: Entry) -> int:
    """Is it directly behind the left side; before the right, where nothing is on the left?"""
    grade = YES
    beside = low or high
    since_ns = min(min(one.time_ns for one in beside), entry.time_ns)
    until_ns = max(max(one.time_ns for one in beside), entry.time_ns)
    for other in case.around(case.everything(), since_ns, until_ns, entry):
        if other is entry or other in beside:
            continue
        if low:
            behind = min(before_by_key(one, other) for one in low)
            between = min(behind, before_by_key(other, entry))
        else:
            ahead = min(before_by_key(other, one) for one in high)
            between = min(ahead, before_by_key(entry, other))
        grade = min(grade, negated(between))
    return grade


def _satisfies(case: Case, gap: NegationGap, entry: Entry) -> int:
    binding = case.layout.binding(case.bound)
    binding[gap.slot] = [entry]
    grade = YES
    for tie in (*gap.own, *gap.ties):
        if all(binding[slot] for slot in tie.needed):
            grade = min(grade, tie.graded(binding))
    return grade
