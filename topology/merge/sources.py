"""The sources that MERGE knows: at most `max_sources`, the longest idle one gives way; one that was
silent for `forget_after` goes when a new one comes, as in REORDER.

Two heaps find the least of their newest times without a look at each: of those that are live, and
of those that are not and have not said bye. A newest time only rises, so an entry may be too old:
it is put right when it comes up. Cost: O(log sources) for each live source that has moved.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush, heapreplace
from typing import Final

from topology.merge.errors import LargestErrors
from topology.merge.settings import MergeConfig
from topology.merge.source import OUT, SourceProgress
from topology.model.histogram import Histogram
from topology.model.idle import LongestIdle
from topology.model.journal import Journal
from topology.model.operator import NEVER, Changes

PROGRESS: Final = "feed/"

SPARE: Final = 1_000
"""Entries of forgotten sources that are not worth throwing out."""


class KnownSources:
    """The `table` of them by name, the `journal` of those that changed, and the `pool` of the
    delays of all. The parts of a `Merge` share them."""

    def __init__(self, config: MergeConfig) -> None:
        self.table: dict[str, SourceProgress] = {}
        self.journal = Journal(self.table)
        self.pool = Histogram(config.miss_target_ppm)
        self.errors = LargestErrors(self.table)
        self._max_sources = config.reorder.max_sources
        self._forget_after_ns = config.reorder.forget_after_ns
        self._longest_idle = LongestIdle()
        self.forgotten = 0
        self.scattered: set[str] = set()
        """Those that came by several input partitions, where each ought to have one."""
        self._live: list[tuple[int, str]] = []
        self._silent: list[tuple[int, str]] = []

    def add(self, progress: SourceProgress) -> None:
        """`progress` is that of a source which was not known, or which a state names."""
        self.table[progress.source] = progress
        self._longest_idle.note(progress.source, progress.last_arrival_ns)
        self.falls_silent(progress)
        if max(len(self._live), len(self._silent)) > 2 * len(self.table) + SPARE:
            self._throw_out()

    def revives(self, progress: SourceProgress) -> None:
        """It is live, and its state does not say so yet."""
        if progress.state >= OUT:
            self.errors.moves(progress, is_live=True)
        if not progress.in_live:
            progress.in_live = True
            heappush(self._live, (progress.newest_ns, progress.source))

    def falls_silent(self, progress: SourceProgress) -> None:
        """It is not live, and may not have said bye."""
        progress.fall_silent()
        self.errors.moves(progress, is_live=False)
        if not progress.in_silent:
            progress.in_silent = True
            heappush(self._silent, (progress.newest_ns, progress.source))

    def least_live_ns(self) -> int:
        """The newest time of the live source that is least far; NEVER: none is live."""
        heap = self._live
        while heap:
            known_ns, source = heap[0]
            progress = self.table.get(source)
            if progress is None or progress.state >= OUT:
                heappop(heap)
                if progress is not None:
                    progress.in_live = False
            elif progress.newest_ns > known_ns:
                heapreplace(heap, (progress.newest_ns, source))
            else:
                return known_ns
        return NEVER

    def least_silent_ns(self) -> int:
        """The same of those that are not live, and have not said bye."""
        heap = self._silent
        while heap:
            known_ns, source = heap[0]
            progress = self.table.get(source)
            if progress is None or progress.state < OUT or progress.said_bye:
                heappop(heap)
                if progress is not None:
                    progress.in_silent = False
            elif progress.newest_ns > known_ns:
                heapreplace(heap, (progress.newest_ns, source))
            else:
                return known_ns
        return NEVER

    def _throw_out(self) -> None:
        """A source that was forgotten and came again has several entries."""
        known = self.table.values()
        self._live = [(each.newest_ns, each.source) for each in known if each.in_live]
        self._silent = [(each.newest_ns, each.source) for each in known if each.in_silent]
        heapify(self._live)
        heapify(self._silent)

    def forget(self, newcomer: SourceProgress) -> list[SourceProgress]:
        """Those beyond the bound, and those silent too long."""
        forgotten: list[SourceProgress] = []
        silent_since_ns = newcomer.last_arrival_ns - self._forget_after_ns
        while True:
            before_ns = NEVER if len(self.table) > self._max_sources else silent_since_ns
            longest = self._longest_idle.longest(self.table, newcomer.source, before_ns)
            if longest is None:
                self.forgotten += len(forgotten)
                return forgotten
            forgotten.append(self.table.pop(longest))
            self.scattered.discard(longest)
            self.journal.forget([PROGRESS + longest])

    def changes(self) -> Changes:
        changes: Changes = {**self.journal.take_removed()}
        for progress in self.journal.take_changed():
            changes[PROGRESS + progress.source] = progress.dump()
        return changes
