"""A line: a query whose starts can be followed event by event, as an automaton does.

A sequence of single events under skip-till-next or STRICT, without negations, has one walk from a
start, and the walk is in one state: so many components are taken, the next one is awaited. So an
event in order moves the walks that await it by one step each, and nothing is looked up; a late one
takes the place of the first member behind it, and the walk goes on from there through the indexes.

`line_of` says which queries these are, all conditions on the query in one place. What the tactics
`walk` (MATCHES ONE) and `exhaustive` (ALL) find is the definition: it is the same
(`topology.pattern.run.automaton`).

Cost: a bisect for each component taken from the indexes; where conditions name several events, also
the entries looked at.

Proved by: tests/topology/pattern/run/test_automaton.py
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from topology.pattern.compile.expression import Binding, Condition
from topology.pattern.match.evaluation import MAX_STEPS
from topology.pattern.match.layout import Layout
from topology.pattern.match.match import Match
from topology.pattern.store.entry import Entry
from topology.pattern.store.index import EntryIndex

LOOKED_THROUGH: Final = MAX_STEPS // 2
"""So many entries may be in the indexes of a sequence where conditions tell them apart: no walk
then takes the steps of which a unit overflows."""

ONCE: Final = (1, 1, None, False)


class Line:
    """`strict[j]`: the step into component j takes the very next event or none. `is_strict`: one
    of them does; `is_tested`: one has conditions that name other events too."""

    __slots__ = ("_absent", "_tests", "by_key", "count", "is_strict", "is_tested", "strict",
                 "within_ns")  # fmt: skip

    def __init__(self, layout: Layout) -> None:
        self.count = layout.count
        self.within_ns = layout.within_ns
        self.by_key = layout.by_key
        self.strict = [part.edge == "strict" for part in layout.components]
        self.is_strict = any(self.strict[1:])
        self._tests: list[list[Condition]] = [[] for _ in layout.components]
        for clause in layout.clauses:
            self._tests[clause.settled_at].append(clause.condition)
        self.is_tested = any(self._tests)
        self._absent: list[Binding] = [[()] * (self.count - 1 - j) for j in range(self.count)]

    def fits(self, taken: Sequence[Entry], entry: Entry) -> bool:
        """Whether the conditions hold with the entry taken next."""
        tests = self._tests[len(taken)]
        if not tests:
            return True
        binding: Binding = [(one,) for one in taken]
        binding.append((entry,))
        binding += self._absent[len(taken)]
        for test in tests:  # noqa: SIM110 - in half the time of all()
            if test.holds(binding) is not True:
                return False
        return True

    def precedes(self, one: Entry, other: Entry) -> bool:
        """Whether the other may be taken after the one, by order alone."""
        return one.key < other.key if self.by_key else one.time_ns < other.time_ns

    def walk(
        self, taken: list[Entry], indexes: Sequence[EntryIndex], everything: EntryIndex | None
    ) -> bool:
        """Go on from what was taken, the start at least, as far as the indexes have it; whether
        the walk awaits a newer entry then. It does not where it is complete, or a strict step met
        what it could not take."""
        until_ns = taken[0].time_ns + self.within_ns
        while len(taken) < self.count:
            j, last = len(taken), taken[-1]
            index = indexes[j]
            low = index.behind(last.key) if self.by_key else index.up_to_time(last.time_ns)
            if self.strict[j]:
                if everything is None:
                    raise ValueError("a strict step needs the index of everything")
                at = everything.behind(last.key)
                if at == len(everything):
                    return True
                entry = everything.entries[at]
                found = index.position(entry.key)
                if found < low or found == len(index) or index.entries[found] is not entry:
                    return False
                if entry.time_ns > until_ns or not self.fits(taken, entry):
                    return False
            else:
                high = index.up_to_time(until_ns)
                entries = index.entries
                while low < high and not self.fits(taken, entries[low]):
                    low += 1
                if low >= high:
                    return True
                entry = entries[low]
            taken.append(entry)
        return False

    def match(self, taken: Sequence[Entry]) -> Match:
        return Match(0, tuple([(entry,) for entry in taken]), taken[0], taken[-1])


def line_of(layouts: Sequence[Layout]) -> Line | None:
    """None where something of the query asks for more.

    One alternative, a plain sequence of two events or more, each exactly once, no negation; each
    step takes the first that fits, or the very next; all conditions over several events can be
    tested at the step that binds the last. What is found is emitted at once, and all of it."""
    layout = layouts[0]
    query, alternative = layout.query, layout.alternative
    if len(layouts) > 1 or layout.count < 2 or alternative.blockers or not alternative.is_linear:
        return None
    if any((p.minimum, p.maximum, p.until, p.greedy) != ONCE for p in layout.components):
        return None
    if layout.by_end or query.matches not in ("one", "all"):
        return None
    if query.matches == "all" and any(part.edge == "any" for part in layout.components[1:]):
        return None
    if any(clause.settled_at < 0 for clause in layout.clauses):
        return None
    if query.emit != "eager" or query.skip != "none" or query.uncertain == "possible":
        return None
    return Line(layout)
