"""The sources that MERGE knows: at most `max_sources`, the longest idle one gives way; one that was
silent for `forget_after` goes when a new one comes, as in REORDER.

With the first event all that are expected count as received, so that none of them is passed over
before it has spoken; one that does not speak is idle a wait later.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from topology.merge.bounds import SourceBounds
from topology.merge.source import NO_REF, OUT, SourceProgress
from topology.merge.watermark import Watermark
from topology.model.idle import LongestIdle
from topology.model.journal import Journal
from topology.model.operator import NEVER, Changes

PROGRESS: Final = "feed/"


class KnownSources:
    """`table` and `journal` are shared with the bounds, the watermark and the queues."""

    def __init__(
        self,
        table: dict[str, SourceProgress],
        journal: Journal[SourceProgress],
        expected: Sequence[str],
        max_sources: int,
        forget_after_ns: int,
        miss_ppm: int,
    ) -> None:
        self.table = table
        self._journal = journal
        self._expected = expected
        self._max_sources = max_sources
        self._forget_after_ns = forget_after_ns
        self._miss_ppm = miss_ppm
        self._longest_idle = LongestIdle()
        self.forgotten = 0

    def begin(self, bounds: SourceBounds, source: str, received_ns: int) -> None:
        """`source` is the first to send; the others that are expected count as if they sent at
        `received_ns`."""
        for expected in self._expected:
            if expected != source:
                bounds.enter(self.add(bounds, expected, received_ns), NO_REF)

    def add(self, bounds: SourceBounds, source: str, at_ns: int) -> SourceProgress:
        progress = self.table[source] = bounds.new_progress(source, self._miss_ppm)
        progress.last_arrival_ns = at_ns
        self._journal.mark(progress)
        self._longest_idle.note(source, at_ns)
        return progress

    def forget(self, bounds: SourceBounds, watermark: Watermark, newcomer: SourceProgress) -> bool:
        """Those beyond the bound, and those silent too long; whether there were any."""
        before = self.forgotten
        silent_since_ns = newcomer.last_arrival_ns - self._forget_after_ns
        while True:
            before_ns = NEVER if len(self.table) > self._max_sources else silent_since_ns
            longest = self._longest_idle.longest(self.table, newcomer.source, before_ns)
            if longest is None:
                break
            left = self.table.pop(longest)
            bounds.leave(left, OUT)
            bounds.say_bye(left, said=False)
            watermark.lacking.discard(longest)
            self._journal.forget([PROGRESS + longest])
            self.forgotten += 1
        return self.forgotten > before

    def changes(self) -> Changes:
        changes: Changes = {**self._journal.take_removed()}
        for progress in self._journal.take_changed():
            changes[PROGRESS + progress.source] = progress.snapshot()
        return changes

    def restore(self, source: str, state: Any, bounds: SourceBounds, watermark: Watermark) -> None:
        progress = self.table[source] = bounds.new_progress(source, self._miss_ppm)
        progress.restore(state)
        watermark.note(progress)
        self._longest_idle.note(source, progress.last_arrival_ns)
        bounds.restored(progress)
