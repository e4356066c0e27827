"""What forbids a match among the events around it: surely, maybe, or not.

*Negations* (`blocked`): is an event in a gap of the match that must not be there?

*UNTIL* (`ended`): does an event end a group of the match before its last element? What asks for
more than the event itself (`UNTIL (b.x < b[i-1].x)`) is as it is by reference times where all
events in question are in one order; elsewhere it is in doubt.

*STRICT and NEXT steps, and the walk of MATCHES ONE* (`taken_otherwise`): would another event be
taken instead? In a world the walk from a start takes exactly the match if, event by event in the
order of that world, each member is eligible when its turn comes (which follows from its being a
match), fits no component that goes before its own, and no other event fits any. MATCHES ALL asks
this of each step, for the component that the step leads into; and of a greedy group that it leaves
out no event it could have had last.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

from topology.pattern.compile.grading import MAYBE, NO, YES
from topology.pattern.match.layout import GREEDY_LOOP, LOOP, SUCCESSOR, NegationGap
from topology.pattern.match.uncertain.case import Case
from topology.pattern.match.uncertain.order import (
    at_most,
    before,
    before_by_key,
    is_settled,
    negated,
)
from topology.pattern.store.entry import Entry


def blocked(case: Case) -> int:
    worst = case.floor
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
    worst = MAYBE if gap.looks_at_time else case.floor
    for entry in _candidates(case, number, gap, low, high):
        grade = _between(case, gap, low, high, entry)
        if grade > worst and gap.strict:
            grade = min(grade, _is_next(case, low, high, entry))
        if grade > worst and (gap.ties or gap.own):
            grade = min(grade, _satisfies(case, gap, entry))
        worst = max(worst, grade)
        if worst == YES:
            break
    return worst


def _candidates(
    case: Case, number: int, gap: NegationGap, low: list[Entry], high: list[Entry]
) -> Iterable[Entry]:
    beyond_ns = case.layout.within_ns
    if gap.for_ns is not None:
        beyond_ns = gap.for_ns + max([0, *(ns for _, ns in gap.after)])
    since_ns = min(e.time_ns for e in low) if low else case.first.time_ns - beyond_ns
    until_ns = max(e.time_ns for e in high) if high else case.last.time_ns + beyond_ns
    return case.around(case.place.blockers[case.layout.number][number], since_ns, until_ns)


def _between(
    case: Case, gap: NegationGap, low: list[Entry], high: list[Entry], entry: Entry
) -> int:
    """By reference time strictly, whatever TIES says; the ends of the window belong to it."""
    within_ns, members = case.layout.within_ns, case.members
    after = [(one, ns) for slots, ns in gap.after for j in slots for one in case.bound[j]]
    begun = [before(one, entry) for one in low]
    begun += [negated(at_most(entry, one, ns)) for one, ns in after]
    if gap.for_ns is not None:
        inside_ns = gap.for_ns - 1
        if low:  # what is on the right comes later
            ends = [(one, 0) for one in low] + after
            return min(max(at_most(entry, one, ns + inside_ns) for one, ns in ends), *begun)
        inside = max(at_most(one, entry, inside_ns) for one in high)
        return min(inside, *(before(entry, one) for one in high))
    above = begun or [at_most(one, entry, within_ns) for one in members]
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


def ended(case: Case) -> int:
    return max((_ended(case, j) for j in range(case.layout.count)), default=NO)


def _ended(case: Case, j: int) -> int:
    until, group = case.layout.untils[j], case.bound[j]
    if until is None or not group:
        return NO
    around = case.around(case.enders(j), group[0].time_ns, group[-1].time_ns)
    found = [(entry, inside) for entry in around if (inside := _is_inside(case, j, entry))]
    if until.alone is not None:
        return max((min(inside, case.ends_alone(e, j)) for e, inside in found), default=NO)
    entries = [entry for entry, _ in found]
    if until.looks_at_time or not is_settled([*case.members, *entries]):
        return MAYBE
    return YES if any(case.ends(entry, j) for entry in entries) else NO


def _is_inside(case: Case, j: int, entry: Entry) -> int:
    group = case.bound[j]
    if case.slots_of.get(entry) == j:
        return YES
    behind = max(before_by_key(one, entry) for one in group)
    return min(behind, max(before_by_key(entry, one) for one in group))


def taken_otherwise(case: Case) -> int:
    """Does some step pass over an event that it must not pass over?"""
    worst = _breaks_strict(case)
    if worst == YES:
        return worst
    if case.layout.matches == "one":
        return max(worst, _walks_otherwise(case))
    worst = max(worst, _skips_next(case))
    for j, part in enumerate(case.layout.components):
        if part.greedy and worst < YES:
            worst = max(worst, _leaves_out(case, j))
    return worst


def _breaks_strict(case: Case) -> int:
    """Does any event at all lie before a member whose step is strict, and behind another?"""
    parts, worst = case.layout.components, NO
    for j, entries in enumerate(case.bound):
        if "strict" not in (parts[j].edge, parts[j].loop):
            continue
        for entry in entries:
            edges = case.edges(j, entry)
            if "strict" in edges:
                sure = YES if len(edges) == 1 else MAYBE
                for other in case.around(case.everything(), case.first.time_ns, entry.time_ns):
                    if other not in case.slots_of:
                        worst = max(worst, min(sure, _just_before(case, other, entry)))
                        if worst == YES:
                            return worst
    return worst


def _just_before(case: Case, other: Entry, member: Entry) -> int:
    """Is it, no member, between this one and the member before that?"""
    grade = before_by_key(other, member)
    behind = NO
    for one in case.members:
        if grade == NO:
            break
        if one is not member:
            behind = max(behind, before_by_key(one, other))
            between = min(before_by_key(other, one), before_by_key(one, member))
            grade = min(grade, negated(between))
    return min(grade, behind)


def _skips_next(case: Case) -> int:
    parts, worst = case.layout.components, case.floor
    for j, entries in enumerate(case.bound):
        if "next" not in (parts[j].edge, parts[j].loop):
            continue
        for entry in entries:
            edges = case.edges(j, entry)
            if "next" not in edges:
                continue
            sure = YES if len(edges) == 1 else MAYBE
            for other in case.around(case.component(j), case.first.time_ns, entry.time_ns):
                if other in case.slots_of:
                    continue
                grade = min(sure, _just_before(case, other, entry))
                if grade > worst:
                    worst = max(worst, min(grade, case.fits(other, j)))
                if worst == YES:
                    return worst
    return worst


def _leaves_out(case: Case, j: int) -> int:
    """Does the greedy group do without an event that lies behind it and before what follows it;
    or does what follows begin with one that fits?"""
    layout, worst = case.layout, case.floor
    order = before_by_key if layout.by_key else before
    behind = [one for k in layout.after[j] for one in case.bound[k]]
    ahead = [one for k in (j, *layout.before[j]) for one in case.bound[k]]
    over_ns = max(case.last.time_ns, case.first.time_ns + layout.within_ns)
    if behind:
        over_ns = max(one.time_ns for one in behind)
    for entry in case.around(case.component(j), case.first.time_ns, over_ns):
        own = case.slots_of.get(entry)
        if own is None:
            grade = min((order(entry, one) for one in behind), default=YES)
        else:
            grade = YES if own in layout.after[j] else NO
        grade = min([grade, *(before_by_key(one, entry) for one in ahead)])
        if grade > worst:
            worst = max(worst, min(grade, case.fits(entry, j), _may_step(case, entry, j)))
    return worst


def _walks_otherwise(case: Case) -> int:
    worst = case.floor
    for j in range(case.layout.count):
        for entry in case.around(case.component(j), case.first.time_ns, _over_ns(case)):
            own = case.slots_of.get(entry)
            if own == j:
                continue
            grade = case.fits(entry, j)
            if grade > worst:
                grade = min(grade, _may_step(case, entry, j))
            if own is not None and grade > worst:
                grade = min(grade, _goes_before(case, entry, j, own))
            worst = max(worst, grade)
            if worst == YES:
                return worst
    return worst


def _over_ns(case: Case) -> int:
    """When the walk is over, by reference times."""
    layout, bound = case.layout, case.bound
    for j in range(layout.count):
        closed = any(bound[k] for k in layout.after[j])
        if not closed and len(bound[j]) < layout.maximum[j]:
            return max(case.last.time_ns, case.first.time_ns + layout.within_ns)
    return case.last.time_ns


def _may_step(case: Case, entry: Entry, j: int) -> int:
    """Is the step into an event that fits strict, and something between?"""
    edges = case.edges(j, entry)
    if "strict" not in edges:
        return YES
    worst = NO
    for other in case.around(case.everything(), case.first.time_ns, entry.time_ns, entry):
        if other is not entry and other not in case.slots_of:
            worst = max(worst, _just_before(case, other, entry))
    return negated(worst) if len(edges) == 1 else max(MAYBE, negated(worst))


def _goes_before(case: Case, entry: Entry, j: int, own: int) -> int:
    """Does component j go before the entry's own?"""
    ranks, owns = _ranks(case, entry, j), _ranks(case, entry, own)
    verdicts = {(one, j) < (other, own) for one in ranks for other in owns}
    return MAYBE if len(verdicts) == 2 else YES if True in verdicts else NO


def _ranks(case: Case, entry: Entry, j: int) -> set[int]:
    others = [before_by_key(one, entry) for one in case.bound[j] if one is not entry]
    loop = GREEDY_LOOP if case.layout.components[j].greedy else LOOP
    if YES in others:
        return {loop}
    return {loop, SUCCESSOR} if MAYBE in others else {SUCCESSOR}
