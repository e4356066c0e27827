"""Applies negations: determines whether a forbidden event is in a gap of the match.

`normal_form.Blocker` defines exactly where a gap begins and ends. All bounds are corrected
timestamps.

Cost: two bisections for each negation. The gap is scanned only if a predicate relates the negated
event to the match.
"""

from __future__ import annotations

from collections.abc import Sequence

from topology.queries.pattern.compile.closures import Binding
from topology.queries.pattern.match.evaluation import Place, StepBudget
from topology.queries.pattern.match.layout import Layout, NegationGap
from topology.queries.pattern.store.entry import Entry, key_of
from topology.queries.pattern.store.index import EntryIndex


def is_blocked(
    layout: Layout, place: Place, bound: Binding, first: Entry, last: Entry, budget: StepBudget
) -> bool:
    """Return whether any negation of the alternative forbids the match.

    `bound` has the slots of a binding; those of negations are empty before and after the call.
    """
    for gap in layout.gaps:
        index = place.blockers[layout.number][gap.number]
        if not index.times:
            continue
        left = _latest(bound, gap.left)
        right = min((bound[j][0] for j in gap.right if bound[j]), key=key_of, default=None)
        if left is None and right is None:
            continue
        since_ns, until_ns = last.time_ns - layout.within_ns, first.time_ns + layout.within_ns
        low, high = _gap_range(gap, index, bound, left, right, since_ns, until_ns)
        if gap.strict:
            at = _position_next_to(place.everything, index, left, right)
            low, high = max(low, at), min(high, at + 1)
        budget.steps += 1
        if low < high and not gap.ties:
            return True
        for entry in index.entries[low:high]:
            budget.steps += 1
            if _satisfies(gap, bound, entry):
                return True
    return False


def gaps_at_end(layout: Layout, bound: Sequence[Sequence[Entry]]) -> list[NegationGap]:
    """Return the negations whose gap is at the end of this match."""
    return [gap for gap in layout.gaps if not any(bound[j] for j in gap.right)]


def _gap_range(
    gap: NegationGap,
    index: EntryIndex,
    bound: Binding,
    left: Entry | None,
    right: Entry | None,
    since_ns: int,
    until_ns: int,
) -> tuple[int, int]:
    """Return the first position in the gap between `left` and `right`, and the first after it.

    At least one of the two entries is present. In place of the other, `since_ns` or `until_ns`
    bounds the gap.
    """
    for_ns = gap.for_ns
    if left is not None:
        begin_ns = left.time_ns
        for slots, ns in gap.after:
            entry = _latest(bound, slots)
            if entry is not None:
                begin_ns = max(begin_ns, entry.time_ns + ns)
        low = index.count_up_to(begin_ns)
        if for_ns is not None:  # The entries on the right are later than the end of the gap.
            return low, index.count_before(begin_ns + for_ns)
    elif right is not None and for_ns is not None:
        low = index.count_up_to(right.time_ns - for_ns)
    else:
        low = index.count_before(since_ns)
    return low, index.count_up_to(until_ns) if right is None else index.count_before(right.time_ns)


def _satisfies(gap: NegationGap, bound: Binding, entry: Entry) -> bool:
    bound[gap.slot] = [entry]
    holds = all(
        tie.condition.holds(bound) is True for tie in gap.ties if all(bound[a] for a in tie.needed)
    )
    bound[gap.slot] = []
    return holds


def _position_next_to(
    everything: EntryIndex, index: EntryIndex, left: Entry | None, right: Entry | None
) -> int:
    """Return the position in `index` of the entry directly after `left`, or -1 if it is absent.

    If there is no `left`, the entry is the one directly before `right`.
    """
    if left is not None:
        at = everything.behind(left.key)
    else:
        at = everything.position(right.key) - 1 if right is not None else -1
    return index.find(everything.entries[at]) if 0 <= at < len(everything) else -1


def _latest(bound: Sequence[Sequence[Entry]], components: tuple[int, ...]) -> Entry | None:
    return max((bound[j][-1] for j in components if bound[j]), key=key_of, default=None)
