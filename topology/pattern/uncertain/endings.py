"""UNTIL: does an event end a group of the match before its last element?

What asks for more than the event itself (`UNTIL (b.x < b[i-1].x)`) is as it is by reference times
where all events in question are in one order; elsewhere it is in doubt.
"""

from __future__ import annotations

from collections.abc import Sequence

from topology.pattern.entry import Entry
from topology.pattern.grading import MAYBE, NO, YES
from topology.pattern.uncertain.case import Case
from topology.pattern.uncertain.layout import Until
from topology.pattern.uncertain.order import before_by_key, is_settled


def ended(case: Case) -> int:
    return max((_ended(case, j) for j in range(case.layout.count)), default=NO)


def _ended(case: Case, j: int) -> int:
    until, group = case.layout.untils[j], case.bound[j]
    if until is None or not group:
        return NO
    enders = case.place.enders[case.layout.number][j]
    if enders is None:
        raise ValueError("UNTIL needs an index of all entries of the group's types")
    found = list(case.around(enders, group[0].time_ns, group[-1].time_ns))
    if until.alone is not None:
        return max((_ends_alone(case, until, j, entry) for entry in found), default=NO)
    if until.looks_at_time or not is_settled([*case.members, *found]):
        return MAYBE
    high = group[-1].key
    low = group[0].key
    within = [entry for entry in found if low <= entry.key <= high]
    return YES if any(_ends(case, until, j, entry) for entry in within) else NO


def _ends_alone(case: Case, until: Until, j: int, entry: Entry) -> int:
    group = case.bound[j]
    if case.slots_of.get(entry) != j:
        since = max(before_by_key(one, entry) for one in group)
        inside = min(since, max(before_by_key(entry, one) for one in group))
    else:
        inside = YES
    binding: list[Sequence[Entry]] = [()] * case.layout.slots
    binding[j] = [entry]
    return min(inside, until.alone(binding)) if inside and until.alone else NO


def _ends(case: Case, until: Until, j: int, entry: Entry) -> bool:
    bound = [[one for one in entries if one.key < entry.key] for entries in case.bound]
    bound[j].append(entry)
    return until.condition.holds_newest(case.layout.binding(bound), j) is True
