"""Which of the indexes of its partitions a query looks at, and in which role.

Proved by: tests/topology/pattern/test_engine_laws.py,
tests/topology/pattern/test_published_cases.py
"""

from __future__ import annotations

from collections.abc import Sequence

from topology.model.operator import NEVER
from topology.pattern.run.compiled import Compiled, EntryFilter, Slot, end_slots
from topology.pattern.run.lateness import Lateness
from topology.pattern.run.timers import UnitTimers


class Wiring:
    """`filters` are numbers in the partition group. `number`: the query's place among all.
    `blockers`: filters of what may forbid a match, negations and greedy groups at its end. Matches
    that start before `since_ns` are not the query's: it was added after.

    `components`: of a line (`match.tactics.line`), the filter of each component.

    `target_ns`: the query emits only what is decided before that instant (`quality`), and
    `at_target` are the timers of what waits for it; None: it does not wait."""

    __slots__ = (
        "anchors",
        "at_target",
        "blockers",
        "components",
        "enders",
        "filters",
        "lateness",
        "number",
        "query",
        "since_ns",
        "slots_of",
        "target_ns",
    )

    def __init__(self, number: int, query: Compiled, filters: Sequence[EntryFilter]) -> None:
        self.number = number
        self.query = query
        self.since_ns = -NEVER
        self.target_ns: int | None = None
        self.at_target = UnitTimers()
        self.lateness = Lateness()
        count = 0 if query.line is None else query.line.count
        self.components = [filters.index(query.filters[0, j]) for j in range(count)]
        self.slots_of: dict[int, list[Slot]] = {}
        for slot, each in query.filters.items():
            self.slots_of.setdefault(filters.index(each), []).append(slot)
        untils = {filters.index(each) for each in query.untils.values()}
        self.filters = frozenset(self.slots_of.keys() | untils)
        self.anchors = frozenset(filters.index(query.filters[slot]) for slot in query.anchors)
        ends = end_slots(query.form)
        self.enders = frozenset(filters.index(query.filters[slot]) for slot in ends)
        forbidding = [
            (a.number, len(a.components) + k)
            for a in query.form.alternatives
            for k in range(len(a.blockers))
        ]
        forbidding += [(a, j) for a, j in ends if query.form.alternatives[a].components[j].greedy]
        self.blockers = frozenset(filters.index(query.filters[slot]) for slot in forbidding)

    def raise_target(self, until_ns: int) -> int:
        """It never falls; what it is now."""
        self.target_ns = until_ns if self.target_ns is None else max(until_ns, self.target_ns)
        return self.target_ns
