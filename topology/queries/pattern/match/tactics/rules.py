"""Defines which entries may extend a run of one alternative, and when a run is a match.

A *run* is a partial match: `bound[j]` are the entries that it has taken for component j. Runs grow
in the order of keys. A component is *closed* once a later component has an entry. It is *open* if
it is not closed, has less than its maximum, and all components before it have their minimum.

A predicate is *due* when all components that it names are bound; an absent, closed one counts as
bound. Groups that it needs as a whole must be closed. Each predicate is tested when it is due, and
at the end of the run if some component is never closed. Most predicates are over required
components of a sequence. For these, the step that tests them is fixed beforehand.

Cost of a step: O(components), and the predicates due at it.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import ge

from topology.queries.pattern.compile.scope import NO_ENVIRONMENT, Environment
from topology.queries.pattern.match.evaluation import Place, StepBudget
from topology.queries.pattern.match.layout import NO_MAXIMUM, Clause, Layout, as_binding
from topology.queries.pattern.match.match import Match
from topology.queries.pattern.match.tactics.blockers import is_blocked
from topology.queries.pattern.store.entry import Entry
from topology.queries.pattern.store.index import EntryIndex
from topology.queries.pattern.tree.normal_form import Alternative, NormalForm
from topology.queries.pattern.tree.syntax import Edge


class RunRules(Layout):
    """The layout of one alternative, with the rules of its runs.

    `tests[j]` are the predicates that a step into component j may make due. `end_clauses` are those
    that may become due only at the end of a run.
    """

    def __init__(
        self, form: NormalForm, alternative: Alternative, environment: Environment
    ) -> None:
        super().__init__(form, alternative, environment)
        parts = self.components
        self.edges: list[Edge] = [part.edge for part in parts]
        self.loops: list[Edge] = [part.loop for part in parts]
        self.tests = [self._tests_at(j) for j in range(self.count)]
        self.end_clauses = [
            clause
            for clause in self.clauses
            if clause.whole or clause.names_optional or not clause.aliases
        ]

    def _tests_at(self, j: int) -> list[Clause]:
        """Return the predicates that a step into this component may make due."""
        found = []
        for clause in self.clauses:
            closes = any(
                a in self.before[j] and (a in clause.whole or self.minimum[a] == 0)
                for a in clause.aliases
            )
            if clause.settled_at in (-1, j) and (j in clause.aliases or closes):
                found.append(clause)
        return found

    def empty(self) -> list[list[Entry]]:
        return [[] for _ in range(self.slots)]

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
        """Return the contiguity of the next step into this component."""
        return self.loops[j] if bound[j] else self.edges[j]

    def begin(
        self, bound: Sequence[Sequence[Entry]], j: int, index: EntryIndex, last: Entry
    ) -> int:
        """Return the position of the first entry that may follow the run, judged by order alone."""
        if self.by_key:
            return index.behind(last.key)
        floor_ns = -NO_MAXIMUM
        for i in self.before[j]:
            if bound[i] and bound[i][-1].time_ns > floor_ns:
                floor_ns = bound[i][-1].time_ns
        if floor_ns >= last.time_ns:
            return index.count_up_to(floor_ns)
        return index.behind(last.key)

    def count_before(self, index: EntryIndex, entry: Entry) -> int:
        """Return how many entries of the index may come before `entry`, judged by order alone."""
        return index.position(entry.key) if self.by_key else index.count_before(entry.time_ns)

    def holds(self, bound: list[list[Entry]], j: int) -> bool:
        """Return whether the due predicates hold after the last entry of `bound[j]` was taken."""
        for clause in self.tests[j]:
            if clause.settled_at >= 0:
                if clause.condition.holds_newest(as_binding(bound), j) is not True:
                    return False
            elif not self._holds_if_due(clause, bound, j):
                return False
        return True

    def would_hold(self, bound: list[list[Entry]], j: int, entry: Entry) -> bool:
        """Return whether the due predicates would hold if the entry were taken next."""
        if not self.tests[j]:
            return True
        bound[j].append(entry)
        holds = self.holds(bound, j)
        bound[j].pop()
        return holds

    def holds_at_end(self, bound: list[list[Entry]]) -> bool:
        """Return whether a complete run satisfies the predicates that no step has made due."""
        return all(self._holds_if_due(clause, bound, -1) for clause in self.end_clauses)

    def match(
        self,
        bound: list[list[Entry]],
        place: Place,
        first: Entry,
        last: Entry,
        budget: StepBudget,
    ) -> Match | None:
        """Return the match of the run, or None if the run is not a match.

        It is not a match if it is incomplete, if a predicate that is due at its end fails, or if a
        negation forbids it.
        """
        if not self.is_complete(bound) or not self.holds_at_end(bound):
            return None
        if is_blocked(self, place, as_binding(bound), first, last, budget):
            return None
        members = tuple([tuple(entries) for entries in bound[: self.count]])
        return Match(self.number, members, first, last)

    def _holds_if_due(self, clause: Clause, bound: list[list[Entry]], j: int) -> bool:
        """Return whether the clause holds or is not due, at a step into `j` or at the end (-1).

        A clause that needs a group as a whole may be tested several times, with the same result.
        """
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
        """Return whether UNTIL would be TRUE for the entry as the group's next."""
        until = self.untils[j]
        if until is None:
            return False
        bound[j].append(entry)
        ends = until.condition.holds_newest(as_binding(bound), j) is True
        bound[j].pop()
        return ends

    def find_group_end(
        self,
        bound: list[list[Entry]],
        j: int,
        place: Place,
        until: Entry | int,
        budget: StepBudget,
    ) -> Entry | None:
        """Return the first entry after the group's last one that ends the group by UNTIL.

        The search ends before the entry `until`, or after the instant `until`. Return None if the
        group has no UNTIL, has not begun, or is not ended.
        """
        if self.untils[j] is None or not bound[j]:
            return None
        enders = place.enders[self.number, j]
        high = enders.count_up_to(until) if isinstance(until, int) else enders.position(until.key)
        for at in range(enders.behind(bound[j][-1].key), high):
            budget.steps += 1
            if self.is_ender(bound, j, enders.entries[at]):
                return enders.entries[at]
        return None


def layouts_of(form: NormalForm, environment: Environment = NO_ENVIRONMENT) -> list[RunRules]:
    """Return the layouts of the alternatives, in their order."""
    return [RunRules(form, alternative, environment) for alternative in form.alternatives]
