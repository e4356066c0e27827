"""Follows the walks of a plain sequence: stores them, and advances them with each event.

A plain sequence (`steps_of`) has at most one walk from each start, and the entries that the walk
has taken describe it fully. So the walks are stored by the component that they wait for, and need
not begin again at each event. The matches are those of `walk` (MATCHES ONE), or of `best` and
`exhaustive` (ALL); a test compares them. Walks are not saved in the state, because they follow from
the indexes.

`Steps` decides which entry a walk takes:

* An event in order (the newest of its partition) advances each walk that waits for it by one step.
* A late event may belong in walks that have already passed its time. A walk takes it if it comes
  before the entry that was taken, and continues from there through the indexes. Without conditions
  over several events, later starts never take earlier events. So the changed walks are adjacent and
  are found from the newest backwards. With STRICT, any event may fail a step, so all starts of the
  window are walked again.

Cost: an event in order costs O(walks advanced). A late one costs O(log n) for each walk that it
changes: a bisection for each component taken from the indexes. If conditions name several events,
the entries looked at are added.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from topology.queries.pattern.compile.closures import Binding
from topology.queries.pattern.compile.expression import Condition
from topology.queries.pattern.match.evaluation import MAX_STEPS, Place
from topology.queries.pattern.match.layout import Layout
from topology.queries.pattern.match.match import Match
from topology.queries.pattern.store.entry import Entry, Key
from topology.queries.pattern.store.index import BEFORE_ALL_NS

ONCE_EACH: Final = (1, 1, None, False)


class Steps:
    """The rules by which the walks of one sequence take entries.

    Attributes:
        strict: Whether the step into each component takes the very next event or none.
        is_strict: Whether at least one step does so.
        is_tested: Whether at least one step has conditions that name other events too.
    """

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

    def can_take(self, taken: Sequence[Entry], entry: Entry) -> bool:
        """Return whether the walk takes the entry next.

        The entry must belong to the next component and be within the window. For STRICT, it must
        also be the very next event (`Place.entry_after`).
        """
        last = taken[-1]
        if not (last.key < entry.key if self._by_key else last.time_ns < entry.time_ns):
            return False
        return not self.is_tested or self.holds(taken, entry)

    def holds(self, taken: Sequence[Entry], entry: Entry) -> bool:
        """Return whether the conditions hold with the entry taken next."""
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
        """Take the next entries from the indexes, and return whether the walk waits for newer ones.

        `taken` contains at least the start. The walk does not wait if it is complete, or if a
        STRICT step found an entry that it could not take.
        """
        until_ns = taken[0].time_ns + self.within_ns
        while len(taken) < self.count:
            j, last = len(taken), taken[-1]
            index = place.components[0][j]
            if self.strict[j]:
                entry = place.entry_after(last)
                if entry is None:
                    return True
                is_here = entry.time_ns <= until_ns and index.find(entry) >= 0
                if not is_here or not self.can_take(taken, entry):
                    return False
            else:
                low = index.behind(last.key) if self._by_key else index.count_up_to(last.time_ns)
                high = index.count_up_to(until_ns)
                entries = index.entries
                if self.is_tested:
                    while low < high and not self.holds(taken, entries[low]):
                        low += 1
                if low >= high:
                    return True
                entry = entries[low]
            taken.append(entry)
        return False

    def match(self, taken: Sequence[Entry]) -> Match:
        return Match(0, tuple([(entry,) for entry in taken]), taken[0], taken[-1])


def steps_of(layouts: Sequence[Layout]) -> Steps | None:
    """Return the steps of a query, or None if its walks cannot be followed event by event.

    The query must have one alternative: a plain sequence of two or more events, each exactly once,
    without negation. Each step takes the first event that fits, or the very next. All conditions
    over several events must be testable at the step that takes the last of them. Matches
    must be emitted when found, without SKIP, and not with UNCERTAIN POSSIBLE.
    """
    layout = layouts[0]
    query, alternative = layout.query, layout.alternative
    if len(layouts) > 1 or layout.count < 2 or alternative.blockers or not alternative.is_linear:
        return None
    if any((p.minimum, p.maximum, p.until, p.greedy) != ONCE_EACH for p in layout.components):
        return None
    if layout.by_end or query.matches == "maximal":
        return None
    if query.matches != "one" and any(part.edge == "any" for part in layout.components[1:]):
        return None
    if any(clause.settled_at < 0 or clause.looks_back for clause in layout.clauses):
        return None
    if query.emit != "eager" or query.skip != "none" or query.uncertain == "possible":
        return None
    return Steps(layout)


LOOKED_THROUGH: Final = MAX_STEPS // 2
"""The maximum total size of a sequence's indexes if conditions name several of its events.

With more entries, walks are not followed, because a unit might overflow. Up to this number, no walk
takes enough steps for that.
"""

Taken = list[Entry]
"""The entries that a walk has taken, of which the first is its start."""


class FollowedWalks:
    """The walks of one query in one partition.

    `filters[j]` is the number of component j's filter. The query ignores starts before `since_ns`.
    Walks whose start is more than a window before `over_ns` have been forgotten.
    """

    __slots__ = (
        "_backwards",
        "_filters",
        "_place",
        "_since_ns",
        "_starts",
        "_waiting",
        "over_ns",
        "steps",
        "walks",
    )

    def __init__(self, steps: Steps, filters: Sequence[int], since_ns: int, place: Place) -> None:
        self.steps = steps
        self._backwards = range(steps.count - 1, 0, -1)
        self._filters = filters
        self._since_ns = since_ns
        self._place = place
        self._starts = place.components[0][0]
        self.over_ns = BEFORE_ALL_NS
        self.walks: dict[Key, Taken] = {}
        self._waiting: list[dict[Key, Taken]] = [{} for _ in range(steps.count)]

    @property
    def is_beyond(self) -> bool:
        """Whether the indexes have so many entries that an evaluation may overflow its unit."""
        return sum(map(len, self._place.components[0])) > LOOKED_THROUGH

    def follow(self, entry: Entry, filters: Sequence[int]) -> list[Taken]:
        """Advance the walks by the newest entry, and return those that it completes.

        `filters` are the filters that the entry passes.
        """
        complete: list[Taken] = []
        numbers, waiting = self._filters, self._waiting
        for j in self._backwards:  # In this order no walk takes an entry twice.
            if numbers[j] in filters:
                if waiting[j]:
                    self._step(j, entry, complete)
            elif self.steps.strict[j]:
                waiting[j].clear()
        if numbers[0] in filters and self._can_begin(entry):
            self.walks[entry.key] = waiting[1][entry.key] = [entry]
        return complete

    def _step(self, j: int, entry: Entry, complete: list[Taken]) -> None:
        """Advance the walks that wait for component `j` and can take the entry.

        Walks whose window has ended stop waiting, as do those that fail a STRICT step.
        """
        steps, waiting = self.steps, self._waiting
        walks, waiting[j] = waiting[j], {}
        is_last = j + 1 == steps.count
        since_ns = entry.time_ns - steps.within_ns
        is_strict, before = steps.strict[j], self._second_newest() if steps.strict[j] else None
        for key, taken in walks.items():
            if taken[0].time_ns < since_ns or (is_strict and taken[-1] is not before):
                continue
            if steps.can_take(taken, entry):
                taken.append(entry)
                if is_last:
                    complete.append(taken)
                else:
                    waiting[j + 1][key] = taken
            elif not is_strict:
                waiting[j][key] = taken

    def _second_newest(self) -> Entry | None:
        """Return the second newest of the entries that a STRICT step looks at."""
        everything = self._place.everything
        return everything.entries[-2] if len(everything) > 1 else None

    def insert_late(self, entry: Entry, filters: Sequence[int]) -> list[Taken]:
        """Insert a late entry into the walks, and return the walks that it changes.

        `filters` is empty if the entry is in another partition.
        """
        numbers = self._filters
        changed: dict[Key, Taken] = {}
        if self.steps.is_strict:
            self._rewalk_window(entry, changed)
        else:
            for j in range(1, self.steps.count):
                if numbers[j] in filters:
                    self._insert_late(entry, j, changed)
            if numbers[0] in filters:
                taken = self.walk_again(entry)
                if taken is not None:
                    changed[entry.key] = taken
        return list(changed.values())

    def walk_again(self, anchor: Entry) -> Taken | None:
        """Walk again from this start and return the walk, or None if no walk begins here."""
        if not self._can_begin(anchor):
            return None
        taken = self.walks.setdefault(anchor.key, [anchor])
        self._continue_walk(taken, 1)
        return taken

    def over(self, floor_ns: int) -> list[Entry]:
        """Forget the walks that nothing can change any more, and return their starts.

        Everything before `floor_ns` is final.
        """
        starts, within_ns = self._starts, self.steps.within_ns
        low = starts.count_before(self.over_ns - within_ns)
        high = starts.count_before(floor_ns - within_ns)
        self.over_ns = floor_ns
        found = []
        for anchor in starts.entries[low:high]:
            taken = self.walks.pop(anchor.key, None)
            if taken is not None:
                self._stop_waiting(taken)
                found.append(anchor)
        return found

    def waits(self, taken: Taken) -> bool:
        at = len(taken)
        return at < self.steps.count and taken[0].key in self._waiting[at]

    def evaluate(self, taken: Taken) -> tuple[int, frozenset[tuple[int, int]]]:
        """Return `hi_ns` and `waits` of an evaluation with the walk in its present state."""
        at, until_ns = len(taken), taken[0].time_ns + self.steps.within_ns
        if at == self.steps.count:
            return taken[-1].time_ns, frozenset()
        if self.steps.strict[at] and not self.waits(taken):
            return until_ns, frozenset()
        return until_ns, frozenset(((0, at),))

    def _can_begin(self, entry: Entry) -> bool:
        return entry.time_ns >= self._since_ns and self.steps.holds((), entry)

    def _continue_walk(self, taken: Taken, kept: int) -> None:
        """Keep the first `kept` entries of a walk, and continue the walk after them."""
        self._stop_waiting(taken)
        del taken[kept:]
        if self.steps.resume(taken, self._place):
            self._waiting[len(taken)][taken[0].key] = taken

    def _stop_waiting(self, taken: Taken) -> None:
        if len(taken) < self.steps.count:
            self._waiting[len(taken)].pop(taken[0].key, None)

    def _rewalk_window(self, entry: Entry, changed: dict[Key, Taken]) -> None:
        starts = self._starts
        low = starts.count_before(entry.time_ns - self.steps.within_ns)
        for anchor in starts.entries[low : starts.count_up_to(entry.time_ns)]:
            before = self.walks.get(anchor.key, [])[:]
            taken = self.walk_again(anchor)
            if taken is not None and taken != before:
                changed[anchor.key] = taken

    def _insert_late(self, entry: Entry, j: int, changed: dict[Key, Taken]) -> None:
        """Insert the entry into the walks that can take it for component `j`.

        In such a walk, the entries of the components before j are before the entry. Its entry of j,
        if there is one, is after the entry.
        """
        steps, starts = self.steps, self._starts
        low = starts.count_before(entry.time_ns - steps.within_ns)
        for at in range(starts.count_up_to(entry.time_ns) - 1, low - 1, -1):
            taken = self.walks.get(starts.entries[at].key)
            if taken is None or len(taken) < j:
                continue
            if len(taken) > j and taken[j].key < entry.key:
                if steps.is_tested:
                    continue
                break  # The walks of all earlier starts have taken an earlier entry too.
            if steps.can_take(taken[:j], entry):
                self._continue_walk(taken, j)
                changed[taken[0].key] = taken
