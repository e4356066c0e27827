"""The sources that MERGE knows: at most `max_sources`, the longest idle one gives way; one that was
silent for `forget_after` goes when a new one comes, as in REORDER."""

from __future__ import annotations

from typing import Final

from topology.merge.settings import MergeConfig
from topology.merge.source import SourceProgress
from topology.model.histogram import Histogram
from topology.model.idle import LongestIdle
from topology.model.journal import Journal
from topology.model.operator import NEVER, Changes

PROGRESS: Final = "feed/"


class KnownSources:
    """The `table` of them by name, the `journal` of those that changed, and the `pool` of the
    delays of all. The parts of a `Merge` share them."""

    def __init__(
        self, config: MergeConfig, max_sources: int = 200_000, forget_after_ns: int = NEVER
    ) -> None:
        self.table: dict[str, SourceProgress] = {}
        self.journal = Journal(self.table)
        self.pool = Histogram(config.miss_target_ppm)
        self._max_sources = max_sources
        self._forget_after_ns = forget_after_ns
        self._longest_idle = LongestIdle()
        self.forgotten = 0
        self.scattered: set[str] = set()
        """Those that came by several input partitions, where each ought to have one."""

    def add(self, progress: SourceProgress) -> None:
        """`progress` is that of a source which was not known, or which a state names."""
        self.table[progress.source] = progress
        self._longest_idle.note(progress.source, progress.last_arrival_ns)

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
            changes[PROGRESS + progress.source] = progress.snapshot()
        return changes
