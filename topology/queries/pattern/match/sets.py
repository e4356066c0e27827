"""Reports all matches of an end event as one set (AS SETS): their ranges and their number.

In a plain sequence under skip-till-any, of single events and free groups, the `ranges` of an end
event determine its matches. The set is a `Match` whose `bound` has the entries of these ranges.

Matches are counted without being built. A match is a sequence of choices: its single events, and
the borders between adjacent groups. From the first component to the last, each choice gets the
number of ways that lead to it. That is the sum of the ways of all earlier choices at the preceding
position. These choices form a prefix, so one look into the running sums gives their total.

Cost: finding a set takes two bisections and a copy of references for each component, whatever the
number of its matches. Counting takes a bisection, O(log n), for each entry of the ranges.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate, repeat
from math import inf
from operator import attrgetter
from typing import Any

from topology.queries.pattern.match.evaluation import Evaluation, Place
from topology.queries.pattern.match.layout import Layout
from topology.queries.pattern.match.match import Match
from topology.queries.pattern.match.ranges import RangeParts, Ranges
from topology.queries.pattern.store.entry import Entry

Instants = list[Any]
"""The values that order the entries, ascending: their times, or their keys under TIES BY KEY."""


class Sets:
    """A finder of the sets of one query, which also counts their matches."""

    def __init__(self, layout: Layout) -> None:
        self._parts = RangeParts(layout, range(layout.count))
        self._instant = attrgetter("key" if layout.by_key else "time_ns")

    def evaluate(self, place: Place, anchor: Entry, since_ns: int) -> Evaluation:
        """Return the set of the matches that end with `anchor` and start at `since_ns` or later.

        The evaluation has no match if the set is empty.
        """
        evaluation = Evaluation(hi_ns=anchor.time_ns)
        ranges = Ranges(self._parts, place.components[0], anchor, since_ns)
        if ranges.is_possible:
            cuts = zip(ranges.views, ranges.lows, ranges.highs, strict=True)
            bound = tuple([tuple(view.entries[low:high]) for view, low, high in cuts])
            evaluation.matches.append(Match(0, bound, bound[0][0], anchor))
        return evaluation

    def count(self, bound: Sequence[Sequence[Entry]]) -> int:
        """Return the number of matches in a set."""
        parts, last = self._parts, self._parts.count - 1
        instants: list[Instants] = [list(map(self._instant, entries)) for entries in bound]
        ways = Ways()
        for p in range(last + 1):
            minimum = parts.minimum[p]
            if not parts.is_group[p]:
                ways.add_position(instants[p], instants[p])
            elif p == last or not parts.is_group[p + 1]:
                ways.filling, ways.minimum = instants[p], minimum
            else:
                borders = _find_borders(instants[p], instants[p + 1], minimum)
                enough = [instants[p][at - minimum + 1] for at in borders]
                ways.add_position([instants[p][at] for at in borders], enough)
        end = [(inf,) if parts.by_key else inf]
        ways.add_position(end, end)
        return ways.sums[-1]


class Ways:
    """A counter of the ways that lead to each choice, position by position.

    Attributes:
        sums: The number of ways that lead to the first i choices, for each i.
        filling: The entries of a group next to a single event, or at the end. Such a group is not
            a separate choice, so the next choice takes it into account.
        minimum: The least number of entries that the group must take.
    """

    __slots__ = ("_chosen", "filling", "minimum", "sums")

    def __init__(self) -> None:
        self._chosen: Instants | None = None
        self.sums: Sequence[int] = (0, 1)
        self.filling: Instants = []
        self.minimum = 0

    def add_position(self, choices: Instants, enough: Instants) -> None:
        """Add a position with these choices.

        The choice at the position before must be earlier than the element of `enough` at the same
        index.
        """
        filling, least = self.filling, self.minimum
        if filling:
            ends = list(map(bisect_left, repeat(filling), choices))
            choices = [y for y, end in zip(choices, ends, strict=True) if end >= least]
            enough = [filling[end - least] for end in ends if end >= least]
            self.filling = []
        if self._chosen is None:
            ways: Sequence[int] = [1] * len(choices)
        else:
            sums = self.sums
            ways = [sums[at] for at in map(bisect_left, repeat(self._chosen), enough)]
        self._chosen = choices
        self.sums = list(accumulate(ways, initial=0))


def _find_borders(group: Instants, following: Instants, minimum: int) -> list[int]:
    """Return the positions of entries that may be the last of a group before another group.

    No entry of the group is between such an entry and the next group's first entry after it.
    """
    firsts = list(map(bisect_right, repeat(following), group))
    last = len(group) - 1
    return [
        at
        for at in range(minimum - 1, last + 1)
        if firsts[at] < len(following) and (at == last or firsts[at] < firsts[at + 1])
    ]
