"""UNTIL: does an event end a group of the match before its last element?

What asks for more than the event itself (`UNTIL (b.x < b[i-1].x)`) is as it is by reference times
where all events in question are in one order; elsewhere it is in doubt.
"""

from __future__ import annotations

from topology.pattern.compile.grading import MAYBE, NO, YES
from topology.pattern.match.uncertain.case import Case
from topology.pattern.match.uncertain.order import before_by_key, is_settled
from topology.pattern.store.entry import Entry


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
