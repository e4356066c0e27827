"""Finds the matches of sequences whose groups are free: groups are sliced, never enumerated.

All steps must be under skip-till-any, so the end event is the anchor. A backward pass finds the
latest entry of each component that still leaves one for each later component. Then the single
events are chosen from the first component on, each no later than its component's latest entry. So
without predicates no choice is a dead end. A group takes all eligible entries between its
neighbours, which are a slice of an index.

Between two adjacent groups (A+ B+) the border is chosen like a single event. It is an entry of A
that some entry of B follows, with no entry of A between it and the first such entry. All entries of
A are at or before the border, and all entries of B are after it.

Optional components split a sequence into several *lines*, one for each choice of which are present.
The result has the matches of all lines. For MAXIMAL it has those that no other contains.

The matches of a line are found in the order of `match.in_order`. So for a sequence without optional
components the search stops at the limit.

Cost: O(components · log n) for a unit and for each match, for each line. If predicates relate
elements of groups to single events, the entries filtered are added.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Final

from topology.queries.pattern.compile.closures import Binding
from topology.queries.pattern.compile.expression import Condition
from topology.queries.pattern.match.evaluation import Place, Search, StepBudget
from topology.queries.pattern.match.layout import Clause, Layout
from topology.queries.pattern.match.match import EntryView, Match, in_order
from topology.queries.pattern.match.ranges import RangeParts, Ranges
from topology.queries.pattern.match.tactics.blockers import is_blocked
from topology.queries.pattern.match.tactics.maximal import select_maximal
from topology.queries.pattern.store.entry import Entry
from topology.queries.pattern.store.index import BEFORE_ALL_NS, EntryIndex
from topology.queries.pattern.tree.free_groups import is_free

LONG: Final = 16
"""The minimum length of a group that is stored as a view of a shared tuple, not as a copy."""


class Presence(RangeParts):
    """A line: a choice of which components are present, with the conditions by position.

    Attributes:
        single_tests: The conditions that name only single events, at the last of them.
        element_tests: The conditions on each element of a group.
    """

    def __init__(self, layout: Layout, parts: tuple[int, ...]) -> None:
        super().__init__(layout, parts)
        self.groups = [p for p, is_group in enumerate(self.is_group) if is_group]
        self.single_tests: list[list[Condition]] = [[] for _ in parts]
        self.element_tests: list[list[Condition]] = [[] for _ in parts]
        self.is_possible = bool(parts) and all(map(self._place, layout.clauses))
        self.is_tested = any(self.single_tests)
        self.is_sifted = any(self.element_tests)

    def _place(self, clause: Clause) -> bool:
        """Record where the predicate is tested, or return False if it always fails."""
        there = [self.parts.index(j) for j in clause.aliases if j in self.parts]
        if len(there) < len(clause.aliases) and clause.skips_absent:
            return True
        if not there:
            return clause.condition.holds([()] * self.layout.slots) is True
        groups = [p for p in there if self.is_group[p]]
        if groups:
            self.element_tests[groups[0]].append(clause.condition)
        else:
            self.single_tests[there[-1]].append(clause.condition)
        return True


class Cutting:
    """A search in one unit and one line, within the `ranges` of the anchor.

    If groups are filtered by conditions, a second `Cutting` searches the ranges of the entries that
    the filter leaves. If the last component is a single event, the anchor is bound to it first.

    Attributes:
        bound: The chosen entries, by component; all other lists are by position in the line.
        cuts: The bounds of the slice that each group takes, once they are fixed.
    """

    def __init__(self, search: Search, line: Presence, ranges: Ranges, anchor: Entry) -> None:
        self.search = search
        self.budget = search.budget
        self.line = line
        self.ranges = ranges
        self.views = ranges.views
        self.lows = ranges.lows
        self.highs = ranges.highs
        self.anchor = anchor
        self.bound: Binding = [()] * line.layout.slots
        self._last = line.count - 1
        if not line.is_group[self._last]:
            self.bound[line.parts[self._last]] = (anchor,)
        self.cuts = [(0, 0)] * line.count
        self._frozen: list[tuple[Entry, ...] | None] = [None] * line.count
        self.budget.steps += line.count

    def behind(self, p: int, entry: Entry | None) -> int:
        """Return the index of position `p`'s first entry, in range, that may follow `entry`."""
        low = self.lows[p]
        if entry is None:
            return low
        at = self.ranges.behind(p, entry)
        return at if at > low else low

    def extend(self, p: int, floor: Entry | None) -> None:
        """Try all choices from position `p` on, after the entry `floor`."""
        low = self.behind(p, floor)
        high = self.highs[p]
        minimum = self.line.minimum[p]
        self.budget.steps += 1
        if high - low < minimum:
            return
        if p == self._last:
            self.cuts[p] = (low, high)
            self._report_match()
        elif not self.line.is_group[p]:
            self._choose_single(p, low, high)
        elif self.line.is_group[p + 1]:
            self._choose_border(p, low, high)
        elif p + 1 == self._last:
            self.cuts[p] = (low, high)
            self._report_match()
        else:
            # The group extends to the next single event, whichever that is.
            self.cuts[p] = (low, low)
            self.extend(p + 1, self.views[p].entries[low + minimum - 1])

    def _choose_single(self, p: int, low: int, high: int) -> None:
        entries = self.views[p].entries
        search, budget = self.search, self.budget
        is_behind_group = p > 0 and self.line.is_group[p - 1]
        is_before_end = p + 1 == self._last and not self.line.is_group[p + 1]
        for at in range(low, high):
            if len(search.found) >= search.wanted or budget.steps > budget.most:
                return
            budget.steps += 1
            entry = entries[at]
            self.bound[self.line.parts[p]] = (entry,)
            if self.line.is_tested and not self._holds(p):
                continue
            if is_behind_group:
                self.cuts[p - 1] = (self.cuts[p - 1][0], self.ranges.before(p - 1, entry))
            if is_before_end:
                self._report_match()
            else:
                self.extend(p + 1, entry)

    def _choose_border(self, p: int, low: int, high: int) -> None:
        """Try all borders between the group at position `p` and the group after it."""
        entries = self.views[p].entries
        following = self.views[p + 1]
        at = low + self.line.minimum[p] - 1
        while at < high and not self.search.is_over:
            first = self.behind(p + 1, entries[at])
            self.budget.steps += 1
            if first >= self.highs[p + 1]:
                return
            at = self.ranges.before(p, following.entries[first])
            if at > high:
                return
            self.cuts[p] = (low, at)
            self.extend(p + 1, entries[at - 1])

    def _holds(self, p: int) -> bool:
        """Return whether the predicates hold whose last single event is at this position."""
        for test in self.line.single_tests[p]:  # noqa: SIM110 - in half the time of all()
            if test.holds(self.bound) is not True:
                return False
        return True

    def _report_match(self) -> None:
        """Report the chosen match, which ends in the anchor, unless a negation forbids it."""
        search, layout, bound = self.search, self.search.layout, self.bound
        if self.line.is_tested and not self._holds(self._last):
            return
        for p in self.line.groups:
            bound[self.line.parts[p]] = self._group(p)
        first = bound[self.line.parts[0]][0]
        if layout.gaps and is_blocked(layout, search.place, bound, first, self.anchor, self.budget):
            return
        search.found.append(Match(layout.number, tuple(bound[: layout.count]), first, self.anchor))

    def _group(self, p: int) -> Sequence[Entry]:
        low, high = self.cuts[p]
        if high - low < LONG:
            return tuple(self.views[p].entries[low:high])
        frozen = self._frozen[p]
        if frozen is None:
            frozen = tuple(self.views[p].entries[self.lows[p] : self.highs[p]])
            self._frozen[p] = frozen
        return EntryView(frozen, low - self.lows[p], high - self.lows[p])

    # -- where elements of groups depend on singles -----------------------------------------------

    def choose_singles(self, at: int, floor: Entry | None) -> None:
        """Choose all single events from position `at` on, then filter the groups and slice them."""
        line = self.line
        if at == line.count:
            self._slice_groups()
            return
        if line.is_group[at]:
            self.choose_singles(at + 1, floor)
            return
        low = self.behind(at, floor)
        high = self.highs[at]
        if at == self._last:
            low = max(low, high - 1)
        for position in range(low, high):
            if self.search.is_over:
                return
            self.budget.steps += 1
            entry = self.views[at].entries[position]
            self.bound[line.parts[at]] = (entry,)
            if self._holds(at):
                self.choose_singles(at + 1, entry)

    def _slice_groups(self) -> None:
        line, anchor = self.line, self.anchor
        views = [self._filter_entries(at) for at in range(line.count)]
        ranges = Ranges(line, views, anchor, BEFORE_ALL_NS)
        if ranges.is_possible:
            Cutting(self.search, line, ranges, anchor).extend(0, None)

    def _filter_entries(self, at: int) -> EntryIndex:
        """Return the entries that may be at this position, given the chosen single events."""
        line, bound = self.line, self.bound
        view = EntryIndex()
        if not line.is_group[at]:
            view.add(bound[line.parts[at]][0])
            return view
        low, high = self.lows[at], self.highs[at]
        if at > 0 and not line.is_group[at - 1]:
            low = self.behind(at, bound[line.parts[at - 1]][0])
        if at < self._last and not line.is_group[at + 1]:
            high = min(high, self.ranges.before(at, bound[line.parts[at + 1]][0]))
        self.budget.steps += max(0, high - low)
        for entry in self.views[at].entries[low:high]:
            bound[line.parts[at]] = (entry,)
            if all(test.holds(bound) is True for test in line.element_tests[at]):
                view.add(entry)
        bound[line.parts[at]] = ()
        return view


MAX_OPTIONAL: Final = 4
"""The maximum number of optional components; with more, the exhaustive search is no worse."""


def can_slice(layout: Layout) -> bool:
    """Return whether this finder is correct for the alternative."""
    parts = layout.components
    if not layout.by_end or layout.matches == "one" or not layout.alternative.is_linear:
        return False
    if any(part.edge != "any" for part in parts):
        return False
    groups = [part for part in parts if part.is_group]
    if groups and layout.matches != "maximal":
        return False
    if sum(part.is_optional for part in parts) > MAX_OPTIONAL:
        return False
    return all(is_free(layout.alternative, part) for part in parts)


class Slicing:
    """A finder of matches by slices, over all lines of an alternative."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        choices = [((), (j,)) if m == 0 else ((j,),) for j, m in enumerate(layout.minimum)]
        lines = [Presence(layout, sum(chosen, ())) for chosen in product(*choices)]
        self._lines = [line for line in lines if line.is_possible]
        self._maximal = len(lines) > 1 and layout.matches == "maximal"

    def find(self, place: Place, anchor: Entry, wanted: int, budget: StepBudget) -> list[Match]:
        found: list[Match] = []
        indexes = place.components[self._layout.number]
        for line in self._lines:
            views = [indexes[j] for j in line.parts]
            ranges = Ranges(line, views, anchor, BEFORE_ALL_NS)
            budget.steps += 1
            if not ranges.is_possible:
                continue
            most = budget.most if self._maximal or line.is_sifted else wanted
            search = Search(self._layout, place, budget, most)
            cutting = Cutting(search, line, ranges, anchor)
            if line.is_sifted:
                cutting.choose_singles(0, None)
            else:
                cutting.extend(0, None)
            found += in_order(search.found) if line.is_sifted else search.found
        if self._maximal:
            found = select_maximal(found[:wanted] if budget.is_spent else found)
        return in_order(found) if len(self._lines) > 1 else found
