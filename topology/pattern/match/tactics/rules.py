"""What a run may take next, over the layout of an alternative.

A *run* is a partial match: `bound[j]` are the entries taken for component j so far. Runs grow
in the order of keys. A component is *open* if all that come before it have their minimum, it
has less than its maximum, and nothing that comes behind it was taken; it is
*closed* once something behind it was taken.

Every predicate is tested when it is due: when all it names is bound (absent and closed counts
as settled), and what it needs as a whole is closed. What is never closed is tested at the end.
Which step that is, is known beforehand for the usual predicate, over required components of a
sequence.

Cost of a step: O(components) and the predicates due at it.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import ge

from topology.pattern.match.evaluation import Place, StepBudget
from topology.pattern.match.layout import NO_MAXIMUM, Clause, Layout, as_binding
from topology.pattern.match.match import Match
from topology.pattern.match.tactics.blockers import is_blocked
from topology.pattern.store.entry import Entry
from topology.pattern.store.index import EntryIndex
from topology.pattern.tree.syntax import Edge


class RunRules:
    """`tests[j]`: the predicates that a step into component j may make due. What every step asks of
    the layout is at hand here too."""

    def __init__(self, layout: Layout) -> None:
        parts = layout.components
        self.layout = layout
        self.count = layout.count
        self.by_key = layout.by_key
        self.minimum = layout.minimum
        self.maximum = layout.maximum
        self.before = layout.before
        self.after = layout.after
        self.untils = layout.untils
        self.edges: list[Edge] = [part.edge for part in parts]
        self.loops: list[Edge] = [part.loop for part in parts]
        self.greedy = [part.greedy for part in parts]
        self.tests = [self._tests_at(j) for j in range(self.count)]
        self.end_clauses = [
            clause
            for clause in layout.clauses
            if clause.whole or clause.names_optional or not clause.aliases
        ]

    def _tests_at(self, j: int) -> list[Clause]:
        """Clauses that a step into this component may make due."""
        found = []
        for clause in self.layout.clauses:
            closes = any(
                a in self.before[j] and (a in clause.whole or self.minimum[a] == 0)
                for a in clause.aliases
            )
            if clause.settled_at in (-1, j) and (j in clause.aliases or closes):
                found.append(clause)
        return found

    def empty(self) -> list[list[Entry]]:
        return [[] for _ in range(self.layout.slots)]

    def is_open(self, bound: Sequence[Sequence[Entry]], j: int) -> bool:
        if len(bound[j]) >= self.maximum[j]:
            return False
        for i in self.before[j]:
            if len(bound[i]) < self.minimum[i]:
                return False
        return not self.is_closed(bound, j)

    def is_closed(self, bound: Sequence[Sequence[Entry]], j: int) -> bool:
        for i in self.after[j]:  # noqa: SIM110 - in half the time of any()
            if bound[i]:
                return True
        return False

    def is_complete(self, bound: Sequence[Sequence[Entry]]) -> bool:
        return all(map(ge, map(len, bound), self.minimum))

    def edge(self, bound: Sequence[Sequence[Entry]], j: int) -> Edge:
        """The contiguity of the next step into this component."""
        return self.loops[j] if bound[j] else self.edges[j]

    def begin(
        self, bound: Sequence[Sequence[Entry]], j: int, index: EntryIndex, last: Entry
    ) -> int:
        """Position of the first entry that may follow the run, by order alone."""
        if self.by_key:
            return index.behind(last.key)
        floor_ns = -NO_MAXIMUM
        for i in self.before[j]:
            if bound[i] and bound[i][-1].time_ns > floor_ns:
                floor_ns = bound[i][-1].time_ns
        if floor_ns >= last.time_ns:
            return index.up_to_time(floor_ns)
        return index.behind(last.key)

    def up_to(self, index: EntryIndex, entry: Entry) -> int:
        """How many of the index may come before the entry, by order alone."""
        return index.position(entry.key) if self.by_key else index.before_time(entry.time_ns)

    def holds(self, bound: list[list[Entry]], j: int) -> bool:
        """The predicates, now that the last entry of `bound[j]` has been taken."""
        for clause in self.tests[j]:
            if clause.settled_at >= 0:
                if clause.condition.holds_newest(as_binding(bound), j) is not True:
                    return False
            elif not self._holds_if_due(clause, bound, j):
                return False
        return True

    def would_hold(self, bound: list[list[Entry]], j: int, entry: Entry) -> bool:
        """The predicates, were the entry taken next."""
        if not self.tests[j]:
            return True
        bound[j].append(entry)
        holds = self.holds(bound, j)
        bound[j].pop()
        return holds

    def holds_at_end(self, bound: list[list[Entry]]) -> bool:
        """The predicates that no step has made due, of a complete run."""
        return all(self._holds_if_due(clause, bound, -1) for clause in self.end_clauses)

    def match(
        self,
        bound: list[list[Entry]],
        place: Place,
        first: Entry,
        last: Entry,
        budget: StepBudget,
    ) -> Match | None:
        """The run's, if it has all, and no predicate on the whole and no negation forbids it."""
        if not self.is_complete(bound) or not self.holds_at_end(bound):
            return None
        if is_blocked(self.layout, place, as_binding(bound), first, last, budget):
            return None
        members = tuple([tuple(entries) for entries in bound[: self.count]])
        return Match(self.layout.number, members, first, last)

    def _holds_if_due(self, clause: Clause, bound: list[list[Entry]], j: int) -> bool:
        """It is asked at a step into j, or at the end (-1). What was tested before is tested again
        where it needs a group as a whole; it cannot come out otherwise."""
        absent = False
        for a in clause.aliases:
            if not bound[a]:
                if j >= 0 and not self.is_closed(bound, a):
                    return True
                absent = True
        if absent and clause.skips_absent:
            return True
        for a in clause.whole:
            if j >= 0 and not self.is_closed(bound, a):
                return True
        if clause.whole or absent or j not in clause.aliases:
            return clause.condition.holds(as_binding(bound)) is True
        return clause.condition.holds_newest(as_binding(bound), j) is True

    def is_ender(self, bound: list[list[Entry]], j: int, entry: Entry) -> bool:
        """UNTIL is TRUE of the entry, were it the group's next."""
        until = self.untils[j]
        if until is None:
            return False
        bound[j].append(entry)
        ends = until.condition.holds_newest(as_binding(bound), j) is True
        bound[j].pop()
        return ends

    def end_of_group(
        self,
        bound: list[list[Entry]],
        j: int,
        place: Place,
        until: Entry | int,
        budget: StepBudget,
    ) -> Entry | None:
        """The first entry behind the group's last that ends it, and is before an entry or not
        behind an instant; None where the group has no UNTIL, or has not begun."""
        if self.untils[j] is None or not bound[j]:
            return None
        enders = place.enders[self.layout.number, j]
        high = enders.up_to_time(until) if isinstance(until, int) else enders.position(until.key)
        for at in range(enders.behind(bound[j][-1].key), high):
            budget.steps += 1
            if self.is_ender(bound, j, enders.entries[at]):
                return enders.entries[at]
        return None
