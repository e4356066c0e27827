"""UNTIL: does an event end a group of the match before its last element?

What asks for more than the event itself (`UNTIL (b.x < b[i-1].x)`) is as it is by reference times
where all events in question are in one order; elsewhere it is in doubt.
"""

from __future__ import annotations

from topology.pattern.entry import Entry
from topology.pattern.grading import MAYBE, NO, YES
from topology.pattern.uncertain.case import Case
from topology.pattern.uncertain.order import before_by_key, is_settled


def ended(case: Case) -> int:
    return max((_ended(case, j) for j in range(case.layout.count)), default=NO)


def _ended(case: Case, j: int) -> int:
    until, group = case.layout.untils[j], case.bound[j]
    if until is None or not group:
        return NO
    found = list(case.around(case.enders(j), group[0].time_ns, group[-1].time_ns))
    if until.alone is not None:
        return max((_ends_alone(case, j, entry) for entry in found), default=NO)
    if until.looks_at_time or not is_settled([*case.members, *found]):
        return MAYBE
    within = [entry for entry in found if group[0].key <= entry.key <= group[-1].key]
    return YES if any(case.ends(entry, j) for entry in within) else NO


def _ends_alone(case: Case, j: int, entry: Entry) -> int:
    group, inside = case.bound[j], YES
    if case.slots_of.get(entry) != j:
        inside = max(before_by_key(one, entry) for one in group)
        inside = min(inside, max(before_by_key(entry, one) for one in group))
    return min(inside, case.ends_alone(entry, j)) if inside else NO
