"""The sources that MERGE knows: at most `max_sources`, the longest quiet one gives way.

With the first event all that are expected count as heard of, so that none of them is passed over
before it has spoken; one that does not speak is idle a wait later.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from topology.merge.bounds import Frontier
from topology.merge.source import NO_REF, OUT, Feed
from topology.merge.watermark import Watermark
from topology.model.idle import Quiet
from topology.model.operator import NEVER, Changes

FEED: Final = "feed/"


class Feeds:
    """`table` and `dirty` are shared with the frontier, the watermark and the queues."""

    def __init__(
        self,
        table: dict[str, Feed],
        dirty: list[Feed],
        expected: Sequence[str],
        max_sources: int,
        miss_ppm: int,
    ) -> None:
        self.table = table
        self.dirty = dirty
        self._expected = expected
        self._max_sources = max_sources
        self._miss_ppm = miss_ppm
        self._quiet = Quiet()
        self._gone: list[str] = []
        self.forgotten = 0

    def begin(self, frontier: Frontier, source: str, heard_ns: int) -> None:
        """`source` is the first heard; the others that are expected count as heard at that
        instant."""
        for expected in self._expected:
            if expected != source:
                frontier.enter(self.add(frontier, expected, heard_ns), NO_REF)

    def add(self, frontier: Frontier, source: str, at_ns: int) -> Feed:
        feed = self.table[source] = frontier.new_feed(source, self._miss_ppm)
        feed.last_arrival_ns = at_ns
        feed.mark(self.dirty)
        self._quiet.note(source, at_ns)
        return feed

    def forget(self, frontier: Frontier, watermark: Watermark, keep: str) -> bool:
        """Those beyond the bound; whether there were any."""
        before = self.forgotten
        while len(self.table) > self._max_sources:
            longest = self._quiet.longest(self.table, keep, NEVER)
            if longest is None:
                break
            left = self.table.pop(longest)
            frontier.leave(left, OUT)
            frontier.say_bye(left, said=False)
            watermark.lacking.discard(longest)
            self._gone.append(longest)
            self.forgotten += 1
        return self.forgotten > before

    def changes(self) -> Changes:
        changes: Changes = {FEED + source: None for source in self._gone}
        self._gone.clear()
        for feed in self.dirty:
            feed.dirty = False
            if self.table.get(feed.source) is feed:
                changes[FEED + feed.source] = feed.snapshot()
        self.dirty.clear()
        return changes

    def restore(self, source: str, state: Any, frontier: Frontier, watermark: Watermark) -> None:
        feed = self.table[source] = frontier.new_feed(source, self._miss_ppm)
        feed.restore(state)
        watermark.note(feed)
        self._quiet.note(source, feed.last_arrival_ns)
        frontier.restored(feed)
