"""MATCHES MAXIMAL: may another event belong to the match in some world?

An event may, if it fits beside each member by itself: order, window, and what is asked of each
element. Where conditions look at the order in a group (`b[i].x > b[i-1].x`), that is not the
whole question; there the match is maximal as it is by reference times if these times leave the
order of all events in question no choice.
"""

from __future__ import annotations

from topology.pattern.compile.grading import MAYBE, NO
from topology.pattern.match.uncertain.case import Case
from topology.pattern.match.uncertain.order import at_most, before, before_by_key, is_settled
from topology.pattern.store.entry import Entry


def joined(case: Case) -> int:
    layout = case.layout
    ordered: set[Entry] = set()
    for j, part in enumerate(layout.components):
        if len(case.bound[j]) >= layout.maximum[j]:
            continue
        free = (
            part.until is None
            and layout.minimum[j] <= len(case.bound[j]) + 1
            and all(clause.for_each for clause in layout.clauses if j in clause.aliases)
        )
        for entry in case.around(case.component(j), *_span_ns(case)):
            if entry not in case.slots_of and _may_join(case, entry, j):
                if free:
                    return MAYBE
                ordered.add(entry)
    return NO if not ordered or _is_as_it_seems(case, ordered) else MAYBE


def may_join(case: Case) -> bool:
    """May any event around, whatever of the others?"""
    return any(
        entry not in case.slots_of and _may_join(case, entry, j)
        for j in range(case.layout.count)
        if len(case.bound[j]) < case.layout.maximum[j]
        for entry in case.around(case.component(j), *_span_ns(case))
    )


def _span_ns(case: Case) -> tuple[int, int]:
    return case.last.time_ns - case.layout.within_ns, case.last.time_ns


def _may_join(case: Case, entry: Entry, j: int) -> bool:
    layout = case.layout
    order = before_by_key if layout.by_key else before
    if not any(before_by_key(entry, one) for one in case.members):
        return False  # it would be the end
    for i, entries in enumerate(case.bound):
        for one in entries:
            if i in layout.before[j] and not order(one, entry):
                return False
            if i in layout.after[j] and not order(entry, one):
                return False
            apart = at_most(entry, one, layout.within_ns), at_most(one, entry, layout.within_ns)
            if NO in apart:
                return False
    bound = [*case.bound]
    bound[j] = [entry]
    return not any(
        layout.grade(clause, bound) == NO
        for clause in layout.clauses
        if j in clause.aliases and clause.for_each
    )


def _is_as_it_seems(case: Case, others: set[Entry]) -> bool:
    layout, entries = case.layout, [*case.members, *others]
    if any(it is not None and it.looks_at_time for it in (*layout.clauses, *layout.untils)):
        return False
    low_ns = min(entry.low_ns for entry in entries)
    high_ns = max(entry.high_ns for entry in entries)
    return high_ns - low_ns <= layout.within_ns and is_settled(entries)
