"""The steps of a plain sequence: which entry a walk takes next, where it takes one for each place.

A sequence of single events under skip-till-next or STRICT, without negations, has one walk from a
start, and what the walk has taken says all about it: so many components are taken, and the next one
is awaited. So such walks can be remembered and moved on by each event (`followed`), where `walk`
would start anew.

`steps_of` says which queries these are, all conditions on the query in one place. What `walk`
(MATCHES ONE) and `exhaustive` (ALL) find is the definition; the law of `followed` holds the steps
to it. They are not made of `walk` itself: a walk that looks at all open components costs three
times as much for each step.

Cost: a bisect for each component taken from the indexes; where conditions name several events, also
the entries looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from topology.pattern.compile.expression import Binding, Condition
from topology.pattern.match.evaluation import Place
from topology.pattern.match.layout import Layout
from topology.pattern.match.match import Match
from topology.pattern.store.entry import Entry

ONCE: Final = (1, 1, None, False)


class Steps:
    """`strict[j]`: the step into component j takes the very next event or none. `is_strict`: one
    of them does; `is_tested`: one has conditions that name other events too."""

    def __init__(self, layout: Layout) -> None:
        self.count = layout.count
        self.within_ns = layout.within_ns
        self._by_key = layout.by_key
        self.strict = [part.edge == "strict" for part in layout.components]
        self.is_strict = any(self.strict[1:])
        self._tests: list[list[Condition]] = [[] for _ in layout.components]
        for clause in layout.clauses:
            self._tests[clause.settled_at].append(clause.condition)
        self.is_tested = any(self._tests)
        self._absent: list[Binding] = [[()] * (self.count - 1 - j) for j in range(self.count)]

    def begins(self, entry: Entry) -> bool:
        """Whether a walk may start with the entry, of the first component."""
        return not self.is_tested or self._holds((), entry)

    def takes(self, taken: Sequence[Entry], entry: Entry) -> bool:
        """Whether the walk takes the entry next, which is of the next component and within the
        window of its start. STRICT asks for more: that nothing lies between (`Place.next_one`)."""
        last = taken[-1]
        if not (last.key < entry.key if self._by_key else last.time_ns < entry.time_ns):
            return False
        return not self.is_tested or self._holds(taken, entry)

    def _holds(self, taken: Sequence[Entry], entry: Entry) -> bool:
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

    def resume(self, taken: list[Entry], place: Place) -> bool:
        """Take what the indexes have behind the entries taken so far, the start at least. Whether
        the walk awaits a newer entry then: it does not where it is complete, or where a strict step
        met what it could not take."""
        until_ns = taken[0].time_ns + self.within_ns
        while len(taken) < self.count:
            j, last = len(taken), taken[-1]
            index = place.components[0][j]
            if self.strict[j]:
                entry = place.next_one(last)
                if entry is None:
                    return True
                if entry.time_ns > until_ns or index.find(entry) < 0:
                    return False
                if not self.takes(taken, entry):
                    return False
            else:
                low = index.behind(last.key) if self._by_key else index.up_to_time(last.time_ns)
                high = index.up_to_time(until_ns)
                entries = index.entries
                if self.is_tested:
                    while low < high and not self._holds(taken, entries[low]):
                        low += 1
                if low >= high:
                    return True
                entry = entries[low]
            taken.append(entry)
        return False

    def match(self, taken: Sequence[Entry]) -> Match:
        return Match(0, tuple([(entry,) for entry in taken]), taken[0], taken[-1])


def steps_of(layouts: Sequence[Layout]) -> Steps | None:
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
    return Steps(layout)
