"""Searches the runs of one alternative depth-first, forwards through the indexes.

The search goes from the first entry of a match to its last. Each step takes entries by its
contiguity: any entry, the first eligible one, or the very next. The search ends at the anchor
(units of an end event) or starts there. Before the search, a backward pass finds the latest entry
of each component that the required components after it allow. Later entries are not tried, so
without predicates hardly any run is a dead end.

Later open components are tried first, and the entries of each in the order of keys. For a sequence
this finds the matches in the order of `match.in_order`.

The branches of the search are in a list instead of Python's stack, which is too shallow for long
groups. Cost: exponential in the worst case; bounded by the budget.
"""

from __future__ import annotations

from typing import Final

from topology.queries.pattern.match.evaluation import Place, Search, StepBudget
from topology.queries.pattern.match.tactics.greedy import Greed
from topology.queries.pattern.match.tactics.rules import RunRules
from topology.queries.pattern.store.entry import Entry
from topology.queries.pattern.store.index import EntryIndex

STOP: Final = -1
"""The choice to end the match, used in place of a component."""


class Branch:
    """A run, and the choices still to be tried after it.

    The next choices are the entries [low, high) of component `open[-1]`, then those of the other
    open components.

    Attributes:
        taken: The component of the run's last entry.
        last: The run's last entry.
        once: Whether only the first entry that fits is tried.
        found: Whether an entry of `open[-1]` has fitted.
    """

    __slots__ = ("found", "high", "last", "low", "once", "open", "taken")

    def __init__(self, taken: int, last: Entry, open_: list[int]) -> None:
        self.taken = taken
        self.last = last
        self.open = open_  # The component to try next is at the end.
        self.low = 0
        self.high = 0
        self.once = False
        self.found = False


class RunSearch(Search):
    """A search for all matches of the unit of `anchor`, which is its end event or its start.

    `chains` tells for each component whether it is a chain (see `exhaustive`); all are False unless
    only maximal matches are needed.
    """

    def __init__(
        self,
        rules: RunRules,
        place: Place,
        budget: StepBudget,
        anchor: Entry,
        wanted: int,
        chains: list[bool],
    ) -> None:
        super().__init__(rules, place, budget, wanted)
        self._rules = rules
        self._indexes = place.components[self.layout.number]
        self._chains = chains
        self._greed = Greed(rules, place, budget)
        self._bound = rules.empty()
        self._branches: list[Branch] = []
        self._ceilings: list[int] = []
        self._current = -1
        self._anchor = self._start = anchor
        self._end = anchor if self.layout.by_end else None

    def find_all(self) -> None:
        reach_ns = 0 if self._end is not None else self.layout.within_ns
        if not self._set_ceilings(self._anchor.time_ns + reach_ns):
            return
        for start, j in self._starts():
            if self.is_over:
                return
            self._from(start, j)

    def _find_choices(self) -> list[int]:
        """Return the components that may come next; the first to be tried is at the end.

        Matches of an end event end only with that event; all others may end as soon as they are
        complete.
        """
        rules = self._rules
        open_ = [i for i in range(rules.count) if rules.is_open(self._bound, i)]
        return open_ if self._end is not None else [*open_, STOP]

    # -- before the search --------------------------------------------------------------------

    def _set_ceilings(self, latest_ns: int) -> bool:
        """Set for each component the latest instant that its entries may have.

        Return False if a required component has no entry that is early enough.
        """
        rules = self._rules
        ceilings = [latest_ns] * rules.count
        tie = 0 if rules.by_key else 1
        for j in reversed(range(rules.count)):
            index = self._indexes[j]
            at = index.count_up_to(ceilings[j]) - 1
            self.budget.steps += 1
            if rules.minimum[j] == 0:
                continue
            if at < 0:
                return False
            for i in rules.before[j]:
                ceilings[i] = min(ceilings[i], index.times[at] - tie)
        self._ceilings = ceilings
        return True

    def _starts(self) -> list[tuple[Entry, int]]:
        """Return the entries that may begin a match of the unit, with their components.

        They are in the order of keys; for one entry, later components come first.
        """
        anchor = self._anchor
        if self._end is None:
            choices = [j for j in reversed(self._find_choices()) if j != STOP]
            return [(anchor, j) for j in choices if self._indexes[j].find(anchor) >= 0]
        starts = []
        for j in reversed(self.layout.starts):
            index = self._indexes[j]
            low = index.count_before(anchor.time_ns - self.layout.within_ns)
            high = min(index.count_up_to(self._ceilings[j]), index.behind(anchor.key))
            starts += [(entry, j) for entry in index.entries[low:high]]
        self.budget.steps += 1
        starts.sort(key=lambda start: start[0].key)
        return starts

    # -- the search ---------------------------------------------------------------------------

    def _from(self, start: Entry, j: int) -> None:
        rules = self._rules
        if rules.is_ender(self._bound, j, start):
            return
        self._start = start
        if self._chains[j] and self._misses_before(j, start):
            return
        if self._greed.forbids(self._bound, start, j, start):
            return
        self._bound[j].append(start)
        if rules.holds(self._bound, j):
            if start is self._end:
                self._report(start)
            else:
                self._push(j, start)
                self._search_branches()
        self._bound[j].pop()

    def _search_branches(self) -> None:
        branches = self._branches
        while branches:
            branch = branches[-1]
            entry = None if self.is_over else self._next(branch)
            if entry is None:
                branches.pop()
                if branches:
                    self._bound[branch.taken].pop()
            elif entry is self._end:
                self._report(entry)
                self._bound[self._current].pop()
            else:
                self._push(self._current, entry)

    def _push(self, j: int, entry: Entry) -> None:
        """Add a branch for the run, which has just been extended by the entry."""
        branch = Branch(j, entry, self._find_choices())
        self._branches.append(branch)
        self._begin(branch)

    def _report(self, last: Entry) -> None:
        match = self._rules.match(self._bound, self.place, self._start, last, self.budget)
        if match is not None and not self._greed.forbids(self._bound, self._start):
            self.found.append(match)

    def _next(self, branch: Branch) -> Entry | None:
        """Extend the run by the next entry that fits, and set `_current` to its component.

        Return the entry, or None if there is none left or the search is over.
        """
        rules = self._rules
        bound = self._bound
        while branch.open:
            j = branch.open[-1]
            if j == STOP:
                self._report(branch.last)
                if self.is_over:
                    return None
            entries = self._indexes[j].entries
            while branch.low < branch.high:
                entry = entries[branch.low]
                branch.low += 1
                self.budget.steps += 1
                if not bound[j] and rules.untils[j] is not None and rules.is_ender(bound, j, entry):
                    continue
                if rules.would_hold(bound, j, entry) and not self._misses(branch, j, entry):
                    if branch.once:
                        branch.low = branch.high
                    if not self._greed.forbids(bound, self._start, j, entry):
                        bound[j].append(entry)
                        branch.found = True
                        self._current = j
                        return entry
                if self.budget.is_spent:
                    return None
            self._on_exhausted(branch)
            branch.open.pop()
            self._begin(branch)
        return None

    def _on_exhausted(self, branch: Branch) -> None:
        """React when all entries of the next open component were tried; a hook for subclasses."""

    # -- runs that lead to no maximal match ---------------------------------------------------

    def _misses(self, branch: Branch, j: int, entry: Entry) -> bool:
        """Return whether the step into `j` by the entry would pass over an entry that fits."""
        taken = branch.taken
        if self._chains[j] and self._misses_before(j, entry):
            return True
        return taken != j and self._chains[taken] and self._misses_at_end(taken, entry)

    def _misses_before(self, j: int, entry: Entry) -> bool:
        """Return whether another entry fits before the group's next entry."""
        index = self._indexes[j]
        if self._branches:
            low = self._rules.begin(self._bound, j, index, self._branches[-1].last)
        else:
            low = index.count_before(self._anchor.time_ns - self.layout.within_ns)
        passed = index.entries[low : index.position(entry.key)]
        return any(self._fits_in(j, one, entry) for one in reversed(passed))

    def _misses_at_end(self, j: int, successor: Entry) -> bool:
        """Return whether the group could take one more entry before its successor."""
        index = self._indexes[j]
        low, high = index.behind(self._bound[j][-1].key), self._rules.count_before(index, successor)
        return any(self._fits_in(j, one) for one in index.entries[low:high])

    def _fits_in(self, j: int, *entries: Entry) -> bool:
        """Return whether the group could take these entries next, one after the other."""
        self.budget.steps += 1
        group = self._bound[j]
        count = len(group)
        fits = True
        for entry in entries:
            group.append(entry)
            fits = fits and self._rules.holds(self._bound, j)
        del group[count:]
        return fits

    # -- the next choices -----------------------------------------------------------------------

    def _begin(self, branch: Branch) -> None:
        """Set the range of entries to try for the branch's next open component."""
        last = branch.last
        branch.low = branch.high = 0
        branch.found = False
        if not branch.open or branch.open[-1] == STOP:
            return
        j = branch.open[-1]
        index = self._indexes[j]
        edge = self._rules.edge(self._bound, j)
        self.budget.steps += 1
        branch.low = self._rules.begin(self._bound, j, index, last)
        branch.high = self._high(j, index)
        branch.once = edge != "any"
        if edge == "strict":
            self._narrow_to_next(branch, index, self.place.entry_after(last))

    def _high(self, j: int, index: EntryIndex) -> int:
        high_ns = min(self._ceilings[j], self._start.time_ns + self.layout.within_ns)
        high = index.count_up_to(high_ns)
        if self._end is not None and high_ns >= self._end.time_ns:
            high = index.behind(self._end.key)
        ender = self._rules.find_group_end(self._bound, j, self.place, high_ns, self.budget)
        return high if ender is None else min(high, index.position(ender.key))

    def _narrow_to_next(self, branch: Branch, index: EntryIndex, following: Entry | None) -> None:
        """Restrict a STRICT step to `following`, the entry directly after the run's last."""
        found = -1 if following is None else index.find(following)
        branch.low, branch.high = max(branch.low, found), min(branch.high, found + 1)
