"""Finds the range of entries that each component may take in the matches of an end event.

In a sequence under skip-till-any, of single events and free groups, a match is a choice of entries
in the order of the components. A group takes all entries between its neighbours. So the entries
that are part of some match are one range of each component's index.

A backward pass from the end finds the latest entry of each component that has enough entries after
it. A forward pass finds the earliest entry that has enough before it. AS SETS (`sets`) reports
these ranges as one result. The single matches (`tactics.slices`) are built within them.

Cost: two bisections for each component.
"""

from __future__ import annotations

from collections.abc import Sequence

from topology.queries.pattern.match.layout import Layout
from topology.queries.pattern.store.entry import Entry
from topology.queries.pattern.store.index import EntryIndex


class RangeParts:
    """The components that are present in a match; the others are optional and absent.

    All lists are indexed by position among the present components: `parts[p]` is the component. A
    group is free here, so its minimum is the only bound of its count.
    """

    def __init__(self, layout: Layout, parts: Sequence[int]) -> None:
        self.layout = layout
        self.parts = parts
        self.count = len(parts)
        self.by_key = layout.by_key
        self.within_ns = layout.within_ns
        self.is_group = [layout.components[j].is_group for j in parts]
        self.minimum = [max(1, layout.minimum[j]) for j in parts]


class Ranges:
    """The ranges of an anchor: for each position p, `views[p]` from `lows[p]` up to `highs[p]`.

    `is_possible`: whether there may be a match; otherwise the ranges are undefined.
    """

    __slots__ = ("by_key", "highs", "is_possible", "lows", "views")

    def __init__(
        self, parts: RangeParts, views: Sequence[EntryIndex], anchor: Entry, since_ns: int
    ) -> None:
        """Find the ranges of matches that end with `anchor` and start at or after `since_ns`."""
        self.by_key = parts.by_key
        self.views = views
        self.lows = [0] * parts.count
        self.highs = [0] * parts.count
        self.is_possible = self._set_highs(parts, anchor) and self._set_lows(
            parts, max(anchor.time_ns - parts.within_ns, since_ns)
        )

    def _set_highs(self, parts: RangeParts, anchor: Entry) -> bool:
        """Find for each position the latest entry that leaves enough entries after it.

        Return False if there can be no match.
        """
        last, views = parts.count - 1, self.views
        high = views[last].find(anchor) + 1
        self.highs[last] = high
        for p in range(last, 0, -1):
            high -= parts.minimum[p]
            if high < 0:
                return False
            high = self.before(p - 1, views[p].entries[high])
            self.highs[p - 1] = high
        return high > 0

    def _set_lows(self, parts: RangeParts, since_ns: int) -> bool:
        """Find for each position the earliest entry that leaves enough entries before it.

        Return False if there can be no match.
        """
        last, views, highs = parts.count - 1, self.views, self.highs
        low = views[0].count_before(since_ns)
        for p in range(last + 1):
            self.lows[p] = low
            enough = low + parts.minimum[p]
            if enough > highs[p]:
                return False
            if p < last:
                low = self.behind(p + 1, views[p].entries[enough - 1])
        if not parts.is_group[last]:
            self.lows[last] = highs[last] - 1
        return True

    def before(self, p: int, entry: Entry) -> int:
        """Return how many of the entries at position `p` may come before `entry`."""
        view = self.views[p]
        return view.position(entry.key) if self.by_key else view.count_before(entry.time_ns)

    def behind(self, p: int, entry: Entry) -> int:
        """Return the index of the first entry at position `p` that may come after `entry`."""
        view = self.views[p]
        return view.behind(entry.key) if self.by_key else view.count_up_to(entry.time_ns)
