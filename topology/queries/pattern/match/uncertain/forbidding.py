"""Grades whether events around a match forbid it: surely, maybe, or not.

This grades a match that was found. The tactics apply the same rules by corrected timestamps
(`blockers`, `greedy`, `search`).

Negations (`grade_blocked`): is a forbidden event in a gap of the match?

UNTIL (`grade_ended`): does an event end a group of the match before its last element? A condition
may need more than the event itself (`UNTIL (b.x < b[i-1].x)`). It is tested by corrected timestamps
if the order of all events in question is certain; otherwise the result is MAYBE.

STRICT and NEXT steps, and the walk of MATCHES ONE (`grade_other_choice`): would another event be
taken instead? In each world the events have an order, in which the walk from the start must take
exactly the match. Each member is eligible at its turn, because the members form a match. It must
fit no component that is preferred to its own, and no other event may fit any component.

MATCHES ALL tests this for each step, for the component that the step leads into. For a greedy group
it also tests that the group leaves out no event that it could have taken last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from itertools import chain

from topology.queries.pattern.compile.grading import MAYBE, NO, YES
from topology.queries.pattern.match.layout import GREEDY_LOOP, LOOP, SUCCESSOR, NegationGap
from topology.queries.pattern.match.uncertain.case import Case
from topology.queries.pattern.match.uncertain.order import (
    grade_before,
    grade_before_by_key,
    grade_within,
    negate,
)
from topology.queries.pattern.store.entry import Entry
from topology.queries.pattern.tree.syntax import Edge


def worst_of(
    floor: int, entries: Iterable[Entry], *questions: Callable[[Entry], int], most: int = YES
) -> int:
    """Return the grade of the entry that most surely forbids the match, but at least `floor`.

    An entry's grade is the least of the answers to the questions, and at most `most`. Its remaining
    questions are not asked once its grade cannot raise the result.
    """
    worst = floor
    for entry in entries:
        if worst >= most:
            break
        grade = most
        for question in questions:
            grade = min(grade, question(entry))
            if grade <= worst:
                break
        worst = max(worst, grade)
    return worst


def grade_blocked(case: Case) -> int:
    return max((_grade_gap_blocked(case, gap) for gap in case.layout.gaps), default=NO)


def _grade_gap_blocked(case: Case, gap: NegationGap) -> int:
    low = [entry for j in gap.left for entry in case.bound[j]]
    high = [entry for j in gap.right for entry in case.bound[j]]
    if not low and not high:
        return NO
    questions: list[Callable[[Entry], int]] = [partial(_grade_in_gap, case, gap, low, high)]
    if gap.strict:
        questions.append(partial(_grade_next, case, low, high))
    if gap.ties or gap.own:
        questions.append(partial(_grade_satisfied, case, gap))
    least = MAYBE if gap.looks_at_time else NO
    return worst_of(least, _find_candidates(case, gap, low, high), *questions)


def _find_candidates(
    case: Case, gap: NegationGap, low: list[Entry], high: list[Entry]
) -> Iterable[Entry]:
    beyond_ns = case.layout.within_ns
    if gap.for_ns is not None:
        beyond_ns = gap.for_ns + max([0, *(ns for _, ns in gap.after)])
    since_ns = min(e.time_ns for e in low) if low else case.first.time_ns - beyond_ns
    until_ns = max(e.time_ns for e in high) if high else case.last.time_ns + beyond_ns
    return case.find_around(case.place.blockers[case.layout.number][gap.number], since_ns, until_ns)


def _grade_in_gap(
    case: Case, gap: NegationGap, low: list[Entry], high: list[Entry], entry: Entry
) -> int:
    """Grade whether the entry is in the gap.

    Entries at the time of a member that bounds the gap are not in it, even under TIES BY KEY. The
    ends of the window are in a gap that the window bounds.
    """
    within_ns, members = case.layout.within_ns, case.members
    after = [(one, ns) for slots, ns in gap.after for j in slots for one in case.bound[j]]
    begun = [grade_before(one, entry) for one in low]
    begun += [negate(grade_within(entry, one, ns)) for one, ns in after]
    if gap.for_ns is not None:
        inside_ns = gap.for_ns - 1
        if low:  # The entries on the right are later than the end of the gap.
            ends = [(one, 0) for one in low] + after
            return min(max(grade_within(entry, one, ns + inside_ns) for one, ns in ends), *begun)
        inside = max(grade_within(one, entry, inside_ns) for one in high)
        return min(inside, *(grade_before(entry, one) for one in high))
    above = begun or [grade_within(one, entry, within_ns) for one in members]
    below = [grade_before(entry, one) for one in high] or [
        grade_within(entry, one, within_ns) for one in members
    ]
    return min(chain(above, below))


def _grade_next(case: Case, low: list[Entry], high: list[Entry], entry: Entry) -> int:
    """Grade whether the entry is directly after `low`, or before `high` if `low` is empty."""
    beside = low or high
    since_ns = min(min(one.time_ns for one in beside), entry.time_ns)
    until_ns = max(max(one.time_ns for one in beside), entry.time_ns)
    around = case.find_around(case.place.everything, since_ns, until_ns, entry)
    others = [other for other in around if other is not entry and other not in beside]

    def grade_between(other: Entry) -> int:
        if low:
            behind = min(grade_before_by_key(one, other) for one in low)
            return min(behind, grade_before_by_key(other, entry))
        ahead = min(grade_before_by_key(other, one) for one in high)
        return min(ahead, grade_before_by_key(entry, other))

    return negate(worst_of(NO, others, grade_between))


def _grade_satisfied(case: Case, gap: NegationGap, entry: Entry) -> int:
    binding = case.layout.make_binding(case.bound)
    binding[gap.slot] = [entry]
    grade = YES
    for tie in (*gap.own, *gap.ties):
        if all(binding[slot] for slot in tie.needed):
            grade = min(grade, tie.graded(binding))
    return grade


def grade_ended(case: Case) -> int:
    return max((_grade_ended(case, j) for j in range(case.layout.count)), default=NO)


def _grade_ended(case: Case, j: int) -> int:
    group = case.bound[j]
    if case.layout.untils[j] is None or not group:
        return NO
    around = case.find_around(case.enders(j), group[0].time_ns, group[-1].time_ns)
    found = [(entry, inside) for entry in around if (inside := _grade_inside(case, j, entry))]
    return case.grade_ended_by(j, found, [entry for entry, _ in found])


def _grade_inside(case: Case, j: int, entry: Entry) -> int:
    group = case.bound[j]
    if case.slots_of.get(entry) == j:
        return YES
    behind = max(grade_before_by_key(one, entry) for one in group)
    return min(behind, max(grade_before_by_key(entry, one) for one in group))


def grade_other_choice(case: Case) -> int:
    """Grade whether some step passes over an event that it must not pass over."""
    worst = _grade_passed_over(case, "strict", NO)
    if worst == YES:
        return worst
    if case.layout.matches == "one":
        return max(worst, _grade_other_walk(case))
    worst = _grade_passed_over(case, "next", worst)
    for j, part in enumerate(case.layout.components):
        if part.greedy and worst < YES:
            worst = max(worst, _grade_left_out(case, j))
    return worst


def _grade_passed_over(case: Case, edge: Edge, worst: int) -> int:
    """Grade whether a step with contiguity `edge` passes over an event; at least `worst`.

    The event is between the step's member and the member before it. For a STRICT step any event
    counts, otherwise only one that fits the component.
    """
    for j, part in enumerate(case.layout.components):
        if edge not in (part.edge, part.loop):
            continue
        index = case.place.everything if edge == "strict" else case.component_index(j)
        for entry in case.bound[j]:
            edges = case.edges(j, entry)
            if edge in edges and worst < YES:
                questions = [partial(_grade_just_before, case, entry)]
                if edge == "next":
                    questions.append(partial(case.grade_fit, j=j))
                most = YES if len(edges) == 1 else MAYBE
                worst = worst_of(worst, case.find_passed(index, entry), *questions, most=most)
    return worst


def _grade_just_before(case: Case, member: Entry, other: Entry) -> int:
    """Grade whether the non-member `other` is between this member and the one before it."""
    grade = grade_before_by_key(other, member)
    behind = NO
    for one in case.members:
        if grade == NO:
            break
        if one is not member:
            behind = max(behind, grade_before_by_key(one, other))
            between = min(grade_before_by_key(other, one), grade_before_by_key(one, member))
            grade = min(grade, negate(between))
    return min(grade, behind)


def _grade_left_out(case: Case, j: int) -> int:
    """Grade whether the greedy group leaves out an event that fits it.

    Such an event is after the group and before the entries of the next components, or is the first
    of these.
    """
    layout = case.layout
    order = grade_before_by_key if layout.by_key else grade_before
    behind = [one for k in layout.after[j] for one in case.bound[k]]
    ahead = [one for k in (j, *layout.before[j]) for one in case.bound[k]]
    window_ns = max(case.last.time_ns, case.first.time_ns + layout.within_ns)
    over_ns = max([one.time_ns for one in behind], default=window_ns)

    def grade_left(entry: Entry) -> int:
        own = case.slots_of.get(entry)
        if own is None:
            grade = min((order(entry, one) for one in behind), default=YES)
        else:
            grade = YES if own in layout.after[j] else NO
        return min([grade, *(grade_before_by_key(one, entry) for one in ahead)])

    around = case.find_around(case.component_index(j), case.first.time_ns, over_ns)
    fits, may_step = partial(case.grade_fit, j=j), partial(_grade_step, case, j)
    return worst_of(NO, around, grade_left, fits, may_step)


def _grade_other_walk(case: Case) -> int:
    worst = NO
    for j in range(case.layout.count):
        around = case.find_around(case.component_index(j), case.first.time_ns, _walk_end_ns(case))
        others = [entry for entry in around if case.slots_of.get(entry) != j]
        fits, may_step = partial(case.grade_fit, j=j), partial(_grade_step, case, j)
        worst = worst_of(worst, others, fits, may_step, partial(_grade_preferred, case, j))
    return worst


def _walk_end_ns(case: Case) -> int:
    """Return the corrected timestamp after which the walk takes no entry."""
    layout, bound = case.layout, case.bound
    for j in range(layout.count):
        closed = any(bound[k] for k in layout.after[j])
        if not closed and len(bound[j]) < layout.maximum[j]:
            return max(case.last.time_ns, case.first.time_ns + layout.within_ns)
    return case.last.time_ns


def _grade_step(case: Case, j: int, entry: Entry) -> int:
    """Grade whether the step into an event that fits is possible.

    It is not possible if the step is STRICT and another event is between.
    """
    edges = case.edges(j, entry)
    if "strict" not in edges:
        return YES
    others = case.find_passed(case.place.everything, entry)
    free = negate(worst_of(NO, others, partial(_grade_just_before, case, entry)))
    return free if len(edges) == 1 else max(MAYBE, free)


def _grade_preferred(case: Case, j: int, entry: Entry) -> int:
    """Grade whether component `j` is preferred to the entry's own component, if it has one."""
    own = case.slots_of.get(entry)
    if own is None:
        return YES
    ranks, owns = _ranks_of(case, entry, j), _ranks_of(case, entry, own)
    verdicts = {(one, j) < (other, own) for one in ranks for other in owns}
    return MAYBE if len(verdicts) == 2 else YES if True in verdicts else NO


def _ranks_of(case: Case, entry: Entry, j: int) -> set[int]:
    loop = GREEDY_LOOP if case.layout.components[j].greedy else LOOP
    return case.choose_by_position(j, entry, SUCCESSOR, loop)
