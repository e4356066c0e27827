"""Negations: is there an event in a gap of the match that must not be there?

`normal_form.Blocker` says exactly where a gap begins and ends. All
bounds are reference times.

Cost: two bisects for each negation; a scan of the gap only where a predicate ties the negated
event to the match.
"""

from __future__ import annotations

from collections.abc import Sequence

from topology.pattern.compile.closures import Binding
from topology.pattern.match.evaluation import Place, StepBudget
from topology.pattern.match.layout import Layout, NegationGap
from topology.pattern.store.entry import Entry
from topology.pattern.store.index import EntryIndex


class Blockers:
    """All negations of an alternative."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.gaps = layout.gaps

    def blocked(
        self, place: Place, bound: Binding, first: Entry, last: Entry, budget: StepBudget
    ) -> bool:
        """`bound` has the slots of a binding; those of negations are empty before and after."""
        for gap in self.gaps:
            index = place.blockers[self.layout.number][gap.number]
            if not index.times:
                continue
            left = _latest(bound, gap.left)
            right = _earliest(bound, gap.right)
            if left is None and right is None:
                continue
            low, high = self._cut(gap, index, bound, left, right, first, last)
            if gap.strict:
                at = _next_one(place.all_entries(), index, left, right)
                low, high = max(low, at), min(high, at + 1)
            budget.steps += 1
            if low < high and not gap.ties:
                return True
            for entry in index.entries[low:high]:
                budget.steps += 1
                if self._satisfies(gap, bound, entry):
                    return True
        return False

    def at_end(self, bound: Sequence[Sequence[Entry]]) -> list[NegationGap]:
        """The negations whose gap is the end of this match."""
        return [gap for gap in self.gaps if not any(bound[j] for j in gap.right)]

    def _cut(
        self,
        gap: NegationGap,
        index: EntryIndex,
        bound: Binding,
        left: Entry | None,
        right: Entry | None,
        first: Entry,
        last: Entry,
    ) -> tuple[int, int]:
        """Positions of what is in the gap between `left` and `right`, of which one is there."""
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

    def _satisfies(self, gap: NegationGap, bound: Binding, entry: Entry) -> bool:
        bound[gap.slot] = [entry]
        holds = all(
            tie.condition.holds(bound) is True
            for tie in gap.ties
            if all(bound[a] for a in tie.needed)
        )
        bound[gap.slot] = []
        return holds


def _next_one(
    everything: EntryIndex, index: EntryIndex, left: Entry | None, right: Entry | None
) -> int:
    """Position of the entry directly behind `left` (where there is none, directly before `right`);
    -1 if it is not in the index."""
    if left is not None:
        at = everything.behind(left.key)
    else:
        at = everything.position(right.key) - 1 if right is not None else -1
    return index.find(everything.entries[at]) if 0 <= at < len(everything) else -1


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
