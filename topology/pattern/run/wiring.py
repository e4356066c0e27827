"""Which of a hall's indexes a query looks at, and in which role.

Proved by: tests/topology/pattern/test_engine_laws.py,
tests/topology/pattern/test_published_cases.py
"""

from __future__ import annotations

from collections.abc import Sequence

from topology.model.operator import NEVER
from topology.pattern.run.compiled import Compiled, Kind, Slot, end_slots
from topology.pattern.run.lateness import Lateness


class Wiring:
    """`kinds` are numbers in the hall. `number`: the query's place among all. `blockers`: kinds of
    what may forbid a match, negations and greedy groups at its end. Matches that start before
    `since_ns` are not the query's: it was added after. `promised_ns`: the query tells only what is
    decided before that instant (`quality`); None: it does not wait."""

    __slots__ = (
        "anchors",
        "blockers",
        "enders",
        "kinds",
        "lateness",
        "number",
        "promised_ns",
        "query",
        "since_ns",
        "slots_of",
    )

    def __init__(self, number: int, query: Compiled, kinds: Sequence[Kind]) -> None:
        self.number = number
        self.query = query
        self.since_ns = -NEVER
        self.promised_ns: int | None = None
        self.lateness = Lateness()
        self.slots_of: dict[int, list[Slot]] = {}
        for slot, kind in query.kinds.items():
            self.slots_of.setdefault(kinds.index(kind), []).append(slot)
        untils = {kinds.index(kind) for kind in query.untils.values()}
        self.kinds = frozenset(self.slots_of.keys() | untils)
        self.anchors = frozenset(kinds.index(query.kinds[slot]) for slot in query.anchors)
        ends = end_slots(query.form)
        self.enders = frozenset(kinds.index(query.kinds[slot]) for slot in ends)
        forbidding = [
            (a.number, len(a.components) + k)
            for a in query.form.alternatives
            for k in range(len(a.blockers))
        ]
        forbidding += [(a, j) for a, j in ends if query.form.alternatives[a].components[j].greedy]
        self.blockers = frozenset(kinds.index(query.kinds[slot]) for slot in forbidding)
