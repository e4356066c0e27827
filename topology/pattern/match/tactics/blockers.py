"""Negations: is there an event in a gap of the match that must not be there?

`normal_form.Blocker` says exactly where a gap begins and ends. All
bounds are reference times.

Cost: two bisects for each negation; a scan of the gap only where a predicate ties the negated
event to the match.
"""

from __future__ import annotations

from collections.abc import Sequence

from topology.pattern.compile.expression import Binding
from topology.pattern.match.evaluation import Place, StepBudget
from topology.pattern.match.layout import Layout, NegationGap
from topology.pattern.store.entry import Entry
from topology.pattern.store.index import EntryIndex


class Blockers:
    """All negations of an alternative."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.gaps = layout.gaps
        self.has_end = any(all(layout.minimum[j] == 0 for j in gap.right) for gap in self.gaps)

    def blocked(
        self, place: Place, bound: Binding, first: Entry, last: Entry, budget: StepBudget
    ) -> bool:
        """`bound` has the slots of a binding; those of negations are empty before and after."""
        for gap in self.gaps:
            index = place.blockers[self.layout.number][gap.number]
            if gap.strict:
                if self._next_one_blocks(gap, index, place, bound, first, last):
                    return True
            elif self._any_blocks(gap, index, bound, first, last, budget):
                return True
        return False

    def waiting(self, bound: Sequence[Sequence[Entry]]) -> list[int]:
        """Slots of the negations whose gap is the end of this match."""
        return [gap.slot for gap in self.gaps if _earliest(bound, gap.right) is None]

    def asks_for_next(self, bound: Sequence[Sequence[Entry]]) -> bool:
        """Whether one at the end of this match is STRICT."""
        return any(gap.strict and _earliest(bound, gap.right) is None for gap in self.gaps)

    def _any_blocks(
        self,
        gap: NegationGap,
        index: EntryIndex,
        bound: Binding,
        first: Entry,
        last: Entry,
        budget: StepBudget,
    ) -> bool:
        if not index.times:
            return False
        low, high = self._cut(gap, index, bound, first, last)
        budget.steps += 1
        if not gap.ties:
            return low < high
        for at in range(low, high):
            budget.steps += 1
            if self._satisfies(gap, bound, index.entries[at]):
                return True
        return False

    def _cut(
        self, gap: NegationGap, index: EntryIndex, bound: Binding, first: Entry, last: Entry
    ) -> tuple[int, int]:
        """Positions of what is in the gap."""
        left = _latest(bound, gap.left)
        right = _earliest(bound, gap.right)
        if left is None and right is None:
            return 0, 0
        within_ns, for_ns = self.layout.within_ns, gap.for_ns
        if left is not None:
            begin_ns = left.time_ns
            for slots, ns in gap.after:
                entry = _latest(bound, slots)
                if entry is not None:
                    begin_ns = max(begin_ns, entry.time_ns + ns)
            low = index.up_to_time(begin_ns)
            if for_ns is not None:  # what is on the right comes later
                return low, index.before_time(begin_ns + for_ns)
        elif right is not None and for_ns is not None:
            low = index.up_to_time(right.time_ns - for_ns)
        else:
            low = index.before_time(last.time_ns - within_ns)
        if right is None:
            return low, index.up_to_time(first.time_ns + within_ns)
        return low, index.before_time(right.time_ns)

    def _next_one_blocks(
        self,
        gap: NegationGap,
        index: EntryIndex,
        place: Place,
        bound: Binding,
        first: Entry,
        last: Entry,
    ) -> bool:
        everything = place.everything
        if everything is None:
            raise ValueError("a strict negation needs the index of everything")
        left = _latest(bound, gap.left)
        right = _earliest(bound, gap.right)
        if left is not None:
            at = everything.behind(left.key)
        elif right is not None:
            at = everything.position(right.key) - 1
        else:
            return False
        if not 0 <= at < len(everything):
            return False
        entry = everything.entries[at]
        low, high = self._cut(gap, index, bound, first, last)
        if not low <= index.find(entry) < high:
            return False
        return self._satisfies(gap, bound, entry)

    def _satisfies(self, gap: NegationGap, bound: Binding, entry: Entry) -> bool:
        bound[gap.slot] = [entry]
        try:
            for tie in gap.ties:
                absent = any(not bound[a] for a in tie.needed)
                if not absent and tie.condition.holds(bound) is not True:
                    return False
            return True
        finally:
            bound[gap.slot] = []


def _latest(bound: Sequence[Sequence[Entry]], components: tuple[int, ...]) -> Entry | None:
    found: Entry | None = None
    for j in components:
        if bound[j] and (found is None or bound[j][-1].key > found.key):
            found = bound[j][-1]
    return found


def _earliest(bound: Sequence[Sequence[Entry]], components: tuple[int, ...]) -> Entry | None:
    found: Entry | None = None
    for j in components:
        if bound[j] and (found is None or bound[j][0].key < found.key):
            found = bound[j][0]
    return found
