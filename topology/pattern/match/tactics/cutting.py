"""The cuts of one unit: what stands for each component of a sequence that ends in the anchor.

See `slices`. Singles and borders between groups are chosen, by increasing key from the first
component on; everything between is a cut of an index.

Proved by: tests/topology/pattern/test_tactics.py, tests/topology/pattern/test_tactics_work.py
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from topology.pattern.compile.expression import Binding, Condition
from topology.pattern.match.budget import StepBudget
from topology.pattern.match.evaluation import Place
from topology.pattern.match.layout import Clause, Layout
from topology.pattern.match.match import Match, Stretch
from topology.pattern.match.search import Search
from topology.pattern.match.tactics.blockers import Blockers
from topology.pattern.store.entry import Entry
from topology.pattern.store.index import EntryIndex

LONG: Final = 16
"""Groups of at least so many entries are stretches of a shared copy."""


class Presence:
    """Which components are there; the others are optional, and absent. Everything is by place in
    the line: `parts[p]` is the component. `single_tests`: the conditions over singles, at the
    last of them; `element_tests`: those on each element of a group."""

    __slots__ = (
        "count",
        "element_tests",
        "groups",
        "is_group",
        "is_possible",
        "is_sifted",
        "is_tested",
        "layout",
        "minimum",
        "parts",
        "single_tests",
    )

    def __init__(self, layout: Layout, parts: tuple[int, ...]) -> None:
        self.layout = layout
        self.parts = parts
        self.count = len(parts)
        self.is_group = [layout.components[j].is_group for j in parts]
        self.groups = [p for p, is_group in enumerate(self.is_group) if is_group]
        self.minimum = [max(1, layout.minimum[j]) for j in parts]
        self.single_tests: list[list[Condition]] = [[] for _ in parts]
        self.element_tests: list[list[Condition]] = [[] for _ in parts]
        self.is_possible = bool(parts) and all(map(self._place, layout.clauses))
        self.is_tested = any(self.single_tests)
        self.is_sifted = any(self.element_tests)

    def _place(self, clause: Clause) -> bool:
        """Note where the predicate is tested; False if it fails whatever is chosen."""
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


class Cutting(Search):
    """One unit and line, by places in the line. At a place may stand what its view holds between
    `lows` and `highs`; the views of `Sifting` hold but what it has chosen. `cuts`: what a group
    takes, once that is known. A single at the end is the anchor from the start. `bound` is by
    component, all else by place."""

    __slots__ = (
        "_by_key",
        "_frozen",
        "_last",
        "_parts",
        "anchor",
        "blockers",
        "bound",
        "cuts",
        "highs",
        "is_possible",
        "line",
        "lows",
        "views",
    )

    def __init__(
        self,
        line: Presence,
        blockers: Blockers,
        place: Place,
        views: list[EntryIndex],
        anchor: Entry,
        budget: StepBudget,
        wanted: int,
        found: list[Match],
    ) -> None:
        super().__init__(line.layout, place, budget, wanted)
        self.found = found
        self.line = line
        self._parts = line.parts
        self._by_key = line.layout.by_key
        self.blockers = blockers
        self.views = views
        self.anchor = anchor
        self.bound: Binding = [()] * line.layout.slots
        self._last = line.count - 1
        if not line.is_group[self._last]:
            self.bound[line.parts[self._last]] = (anchor,)
        low_ns = anchor.time_ns - line.layout.within_ns
        self.lows = [view.before_time(low_ns) for view in views]
        self.highs = [0] * line.count
        self.cuts = [(0, 0)] * line.count
        self._frozen: list[tuple[Entry, ...] | None] = [None] * line.count
        self.is_possible = self._set_highs()

    def _set_highs(self) -> bool:
        """Backwards from the anchor: the latest entries with enough behind them."""
        last = self._last
        self.highs[last] = self.views[last].behind(self.anchor.key)
        at = self.highs[last] - 1
        if at < 0 or self.views[last].entries[at] is not self.anchor:
            return False
        for p in range(last, -1, -1):
            if p < last:
                behind = self.highs[p + 1] - self.line.minimum[p + 1]
                self.highs[p] = self.before(p, self.views[p + 1].entries[behind])
            self.budget.steps += 1
            if self.highs[p] - self.lows[p] < self.line.minimum[p]:
                return False
        return True

    def before(self, p: int, entry: Entry) -> int:
        """How many of the component may stand before the entry."""
        view = self.views[p]
        return view.position(entry.key) if self._by_key else view.before_time(entry.time_ns)

    def behind(self, p: int, entry: Entry | None) -> int:
        """Position of the first that may stand behind it."""
        low = self.lows[p]
        if entry is None:
            return low
        view = self.views[p]
        at = view.behind(entry.key) if self._by_key else view.up_to_time(entry.time_ns)
        return at if at > low else low

    def extend(self, p: int, floor: Entry | None) -> None:
        """All ways to go on at the place behind the entry."""
        low = self.behind(p, floor)
        high = self.highs[p]
        minimum = self.line.minimum[p]
        self.budget.steps += 1
        if high - low < minimum:
            return
        if p == self._last:
            self.cuts[p] = (low, high)
            self._finish()
        elif not self.line.is_group[p]:
            self._choose_single(p, low, high)
        elif self.line.is_group[p + 1]:
            self._choose_border(p, low, high)
        elif p + 1 == self._last:
            self.cuts[p] = (low, high)
            self._finish()
        else:
            self.cuts[p] = (low, low)  # up to the single behind it, whichever that is
            self.extend(p + 1, self.views[p].entries[low + minimum - 1])

    def _choose_single(self, p: int, low: int, high: int) -> None:
        entries = self.views[p].entries
        budget = self.budget
        is_behind_group = p > 0 and self.line.is_group[p - 1]
        is_before_end = p + 1 == self._last and not self.line.is_group[p + 1]
        for at in range(low, high):
            if len(self.found) >= self.wanted or budget.steps > budget.most:
                return
            budget.steps += 1
            entry = entries[at]
            self.bound[self._parts[p]] = (entry,)
            if self.line.is_tested and not self.holds(p):
                continue
            if is_behind_group:
                self.cuts[p - 1] = (self.cuts[p - 1][0], self.before(p - 1, entry))
            if is_before_end:
                self._finish()
            else:
                self.extend(p + 1, entry)

    def _choose_border(self, p: int, low: int, high: int) -> None:
        """The last entry of a group that another group follows."""
        entries = self.views[p].entries
        following = self.views[p + 1]
        at = low + self.line.minimum[p] - 1
        while at < high and not self.is_over:
            first = self.behind(p + 1, entries[at])
            self.budget.steps += 1
            if first >= self.highs[p + 1]:
                return
            at = self.before(p, following.entries[first])
            if at > high:
                return
            self.cuts[p] = (low, at)
            self.extend(p + 1, entries[at - 1])

    def holds(self, p: int) -> bool:
        """The predicates over singles whose last is there."""
        for test in self.line.single_tests[p]:  # noqa: SIM110 - in half the time of all()
            if test.holds(self.bound) is not True:
                return False
        return True

    def _finish(self) -> None:
        """Everything is chosen, and the anchor is the end."""
        layout = self.layout
        bound = self.bound
        if self.line.is_tested and not self.holds(self._last):
            return
        for p in self.line.groups:
            bound[self._parts[p]] = self._group(p)
        first = bound[self._parts[0]][0]
        if self.blockers.gaps and self.blockers.blocked(
            self.place, bound, first, self.anchor, self.budget
        ):
            return
        self.found.append(Match(layout.number, tuple(bound[: layout.count]), first, self.anchor))

    def _group(self, p: int) -> Sequence[Entry]:
        low, high = self.cuts[p]
        if high - low < LONG:
            return tuple(self.views[p].entries[low:high])
        frozen = self._frozen[p]
        if frozen is None:
            frozen = tuple(self.views[p].entries[self.lows[p] : self.highs[p]])
            self._frozen[p] = frozen
        return Stretch(frozen, low - self.lows[p], high - self.lows[p])
