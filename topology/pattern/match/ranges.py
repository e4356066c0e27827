"""All matches of an end event as one: what may stand for each component, and how many they are.

Source: patterns.md 3.3. In a plain sequence under skip-till-any, of singles and of free groups, a
match is any choice of entries in the order of the components; a group takes all there is between
its neighbours (`tactics.slices`). So what takes part in some match is one stretch of each
component's index, from the earliest that has enough before it to the latest that has enough
behind it, and these stretches say what the matches are. The set is a `Match` whose `bound` holds
them.

Matches are counted without being made. What is chosen is singles, and borders between adjacent
groups. Going from the first component to the last, it is known of each choice how many ways there
are to it: those of all choices of the place before that are early enough, which are a prefix of
them, so their sum is one look into the sums so far.

Cost: a set is found by two bisects and a copy of references for each component, whatever the
number of its matches; counting takes a bisect, O(log n), for each entry of the stretches.

Proved by: tests/topology/pattern/test_sets.py
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate, repeat
from typing import Any

from topology.pattern.match.evaluation import Evaluation, Place
from topology.pattern.match.layout import Layout
from topology.pattern.match.match import Match
from topology.pattern.store.entry import Entry
from topology.pattern.store.index import EntryIndex

Instants = list[Any]
"""What decides the order of entries, ascending: their times, or under TIES BY KEY their keys."""


class Ranges:
    """The sets of one query (`tree.factorable`)."""

    __slots__ = ("_by_key", "_is_group", "_last", "_minimum", "_within_ns")

    def __init__(self, layout: Layout) -> None:
        self._by_key = layout.by_key
        self._is_group = [part.is_group for part in layout.components]
        self._minimum = [max(1, minimum) for minimum in layout.minimum]
        self._last = layout.count - 1
        self._within_ns = layout.within_ns

    def evaluate(self, place: Place, anchor: Entry, since_ns: int) -> Evaluation:
        """The set of the matches that end in the anchor and begin at `since_ns` or later, if there
        is any."""
        evaluation = Evaluation(hi_ns=anchor.time_ns)
        bound = self._bound(place.components[0], anchor, since_ns)
        if bound:
            evaluation.matches.append(Match(0, tuple(bound), bound[0][0], anchor))
        return evaluation

    def _bound(
        self, indexes: Sequence[EntryIndex], anchor: Entry, since_ns: int
    ) -> list[tuple[Entry, ...]]:
        last = self._last
        high = indexes[last].behind(anchor.key)
        if high == 0 or indexes[last].entries[high - 1] is not anchor:
            return []
        highs = [high] * (last + 1)
        for p in range(last, 0, -1):
            at = highs[p] - self._minimum[p]
            if at < 0:
                return []
            highs[p - 1] = self._before(indexes[p - 1], indexes[p].entries[at])
        low = indexes[0].before_time(max(anchor.time_ns - self._within_ns, since_ns))
        bound: list[tuple[Entry, ...]] = []
        for p in range(last + 1):
            enough = low + self._minimum[p]
            if enough > highs[p]:
                return []
            if p == last and not self._is_group[p]:
                low = highs[p] - 1
            bound.append(tuple(indexes[p].entries[low : highs[p]]))
            if p < last:
                low = self._behind(indexes[p + 1], indexes[p].entries[enough - 1])
        return bound

    def _before(self, index: EntryIndex, entry: Entry) -> int:
        """How many of the index may stand before the entry."""
        return index.position(entry.key) if self._by_key else index.before_time(entry.time_ns)

    def _behind(self, index: EntryIndex, entry: Entry) -> int:
        """Position of the first that may stand behind it."""
        return index.behind(entry.key) if self._by_key else index.up_to_time(entry.time_ns)

    # -- how many -----------------------------------------------------------------------------

    def count(self, bound: Sequence[Sequence[Entry]]) -> int:
        """How many matches there are in a set."""
        instants = [self._instants(entries) for entries in bound]
        ways = Ways()
        for p in range(self._last + 1):
            minimum = self._minimum[p]
            if not self._is_group[p]:
                ways.choose(instants[p], instants[p])
            elif p == self._last or not self._is_group[p + 1]:
                ways.fill(instants[p], minimum)
            else:
                borders = _borders(instants[p], instants[p + 1], minimum)
                enough = [instants[p][at - minimum + 1] for at in borders]
                ways.choose([instants[p][at] for at in borders], enough)
        return ways.in_all()

    def _instants(self, entries: Sequence[Entry]) -> Instants:
        if self._by_key:
            return [entry.key for entry in entries]
        return [entry.time_ns for entry in entries]


class Ways:
    """How many ways there are to get so far. `chosen`: what may be chosen at the place before, and
    `sums[i]` the ways to the first i of it; None before the first place. A group whose neighbour is
    a single, or the end, is no choice: it waits as `filling`, of at least `minimum`."""

    __slots__ = ("_chosen", "_filling", "_minimum", "_sums")

    def __init__(self) -> None:
        self._chosen: Instants | None = None
        self._sums: Sequence[int] = (0, 1)
        self._filling: Instants = []
        self._minimum = 0

    def fill(self, group: Instants, minimum: int) -> None:
        self._filling = group
        self._minimum = minimum

    def choose(self, choices: Instants, enough: Instants) -> None:
        """One of these; what was chosen before it lies before `enough` at the same position."""
        filling, least = self._filling, self._minimum
        if filling:
            ends = list(map(bisect_left, repeat(filling), choices))
            choices = [y for y, end in zip(choices, ends, strict=True) if end >= least]
            enough = [filling[end - least] for end in ends if end >= least]
            self._filling = []
        if self._chosen is None:
            ways: Sequence[int] = [1] * len(choices)
        else:
            sums = self._sums
            ways = [sums[at] for at in map(bisect_left, repeat(self._chosen), enough)]
        self._chosen = choices
        self._sums = list(accumulate(ways, initial=0))

    def in_all(self) -> int:
        """Now that the last place is behind."""
        filling = self._filling
        if not filling:
            return self._sums[-1]
        if len(filling) < self._minimum:
            return 0
        if self._chosen is None:
            return 1
        return self._sums[bisect_left(self._chosen, filling[len(filling) - self._minimum])]


def _borders(group: Instants, following: Instants, minimum: int) -> list[int]:
    """Positions of what may be the last of a group that another follows: nothing of the group lies
    between it and the first that follows it."""
    firsts = list(map(bisect_right, repeat(following), group))
    last = len(group) - 1
    return [
        at
        for at in range(minimum - 1, last + 1)
        if firsts[at] < len(following) and (at == last or firsts[at] < firsts[at + 1])
    ]
