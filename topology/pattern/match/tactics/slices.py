"""Sequences under skip-till-any whose groups are free: groups are cut, never enumerated.

Source: patterns.md 3.3. The end is the anchor. Going backwards it is found for each
component which entry is the latest that still leaves one for each component behind it; then
the singles are chosen from the first component on, none beyond its latest, so that without
predicates no choice is a dead end. A group takes all eligible entries between its neighbours.

Between two adjacent groups (A+ B+) the border is chosen like a single: it is an a such that some
b is later, and no a lies between it and the first such b. Left of it is all A, right of it
all B.

Optional components make several *lines* of a sequence, one for each choice of what is there. The
matches of all lines are all there are; for MAXIMAL, those that no other contains.

The order in which matches of a line are found is that of `match.in_order`, so that of a
sequence without optional components a limit cuts there and looks no further.

Cost: O(components · log n) for a unit and for each match, for each line; where predicates tie
elements of groups to singles, also the entries sifted.
"""

from __future__ import annotations

from itertools import product
from typing import Final

from topology.pattern.match.evaluation import Place, StepBudget
from topology.pattern.match.layout import Layout
from topology.pattern.match.match import Match, in_order
from topology.pattern.match.ranges import Ranges
from topology.pattern.match.tactics.blockers import Blockers
from topology.pattern.match.tactics.cutting import Cutting, Presence
from topology.pattern.match.tactics.maximal import maximal
from topology.pattern.store.entry import Entry
from topology.pattern.store.index import BEFORE_ALL_NS, EntryIndex
from topology.pattern.tree.free_groups import is_free

MAX_OPTIONAL: Final = 4
"""Optional components of a sequence; with more the exhaustive search is no worse."""


def can_slice(layout: Layout) -> bool:
    """Whether this finder is right for the alternative."""
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
    """The finder."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self.blockers = Blockers(layout)
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
            some: list[Match] = []
            most = budget.most if self._maximal or line.is_sifted else wanted
            cutting = Cutting(line, self.blockers, place, ranges, anchor, budget, most, some)
            if line.is_sifted:
                Sifting(cutting).choose(0, None)
                some = in_order(some)
            else:
                cutting.extend(0, None)
            found += some
        if self._maximal:
            found = maximal(found[:wanted] if budget.is_spent else found)
        return in_order(found) if len(self._lines) > 1 else found


class Sifting:
    """Where elements of groups depend on singles: choose all singles first, sift the entries of
    the groups, and cut what is left."""

    __slots__ = ("_cutting",)

    def __init__(self, cutting: Cutting) -> None:
        self._cutting = cutting

    def choose(self, at: int, floor: Entry | None) -> None:
        """All ways to choose the singles from this place of the line on."""
        cutting = self._cutting
        line = cutting.line
        if at == line.count:
            self._cut()
            return
        if line.is_group[at]:
            self.choose(at + 1, floor)
            return
        low = cutting.behind(at, floor)
        high = cutting.highs[at]
        if at == line.count - 1:
            low = max(low, high - 1)
        for position in range(low, high):
            if cutting.is_over:
                return
            cutting.budget.steps += 1
            entry = cutting.views[at].entries[position]
            cutting.bound[line.parts[at]] = (entry,)
            if cutting.holds(at):
                self.choose(at + 1, entry)

    def _cut(self) -> None:
        whole = self._cutting
        views = [self._sifted(at) for at in range(whole.line.count)]
        ranges = Ranges(whole.line, views, whole.anchor, BEFORE_ALL_NS)
        if not ranges.is_possible:
            return
        cutting = Cutting(
            whole.line,
            whole.blockers,
            whole.place,
            ranges,
            whole.anchor,
            whole.budget,
            whole.wanted,
            whole.found,
        )
        cutting.extend(0, None)

    def _sifted(self, at: int) -> EntryIndex:
        """What may be there with the singles as they are chosen."""
        whole = self._cutting
        line = whole.line
        view = EntryIndex()
        if not line.is_group[at]:
            view.add(whole.bound[line.parts[at]][0])
            return view
        low, high = whole.lows[at], whole.highs[at]
        if at > 0 and not line.is_group[at - 1]:
            low = whole.behind(at, whole.bound[line.parts[at - 1]][0])
        if at + 1 < line.count and not line.is_group[at + 1]:
            high = min(high, whole.ranges.before(at, whole.bound[line.parts[at + 1]][0]))
        whole.budget.steps += max(0, high - low)
        for entry in whole.views[at].entries[low:high]:
            if self._passes(at, entry):
                view.add(entry)
        return view

    def _passes(self, at: int, entry: Entry) -> bool:
        bound = self._cutting.bound
        line = self._cutting.line
        bound[line.parts[at]] = (entry,)
        passes = all(test.holds(bound) is True for test in line.element_tests[at])
        bound[line.parts[at]] = ()
        return passes
