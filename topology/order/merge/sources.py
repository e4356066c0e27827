"""Defines the table of the sources that MERGE knows (topology.state.sources).

Two heaps find the smallest newest time without a look at each source. One is for live sources, the
other for silent ones without an end-of-stream marker. A newest time only rises, so an entry may be
too old until it reaches the top (`topology.base.lazy_heap`). Cost: O(log sources) for each live
source whose newest time has risen.
"""

from __future__ import annotations

from functools import partial
from heapq import nlargest

from topology.base.operator import NEVER
from topology.order.merge.errors import LargestErrors, SourceHeap
from topology.order.merge.settings import MergeConfig
from topology.order.merge.source import OUT, SourceProgress
from topology.state.histogram import Histogram
from topology.state.sources import SourceTable


class NewestHeap(SourceHeap):
    """Sources by their newest times, the smallest first."""

    __slots__ = ()

    def key_of(self, progress: SourceProgress) -> int:
        return progress.newest_ns


class KnownSources(SourceTable[SourceProgress]):
    """The sources of a `Merge`, shared by its parts.

    Attributes:
        pool: The delays of all sources.
        errors: The largest time errors of the sources.
        scattered: The sources whose events arrived in several input partitions.
        set_back_ns: The largest set-back of a source, or of one that has just left.
    """

    def __init__(
        self, config: MergeConfig, progress_class: type[SourceProgress] = SourceProgress
    ) -> None:
        reorder = config.reorder
        make = partial(progress_class, miss_ppm=config.miss_target_ppm)
        super().__init__(
            "source/", progress_class.SHAPE, make, reorder.max_sources, reorder.forget_after_ns
        )
        self.pool = Histogram(config.miss_target_ppm)
        self.errors = LargestErrors(self.rows)
        self.scattered: set[str] = set()
        self.set_back_ns = 0
        self._set_back_by = ""
        self._live = NewestHeap(self.rows, is_live=True)
        self._silent = NewestHeap(self.rows, is_live=False)

    def put(self, key: str, row: SourceProgress) -> None:
        """Add a new source, or one from a restored state."""
        super().put(key, row)
        self.add_silent(row)
        self.note_set_back(row)

    def forget(self, key: str) -> None:
        super().forget(key)
        self.scattered.discard(key)
        self.forget_set_back(key)

    def forget_set_back(self, source: str) -> None:
        """Let the set-backs of a source count no longer."""
        if source == self._set_back_by:
            self._set_back_by = ""

    def note_set_back(self, progress: SourceProgress) -> None:
        """Record the largest set-back of a source, which counts until its end-of-stream marker."""
        if progress.set_back_ns > self.set_back_ns and not progress.said_bye:
            self.set_back_ns, self._set_back_by = progress.set_back_ns, progress.source

    def largest_set_backs(self, most: int) -> dict[str, int]:
        """Return the sources that set back furthest, with their largest set-backs.

        The result has at most `most` sources, the one that sets back furthest first. It is for
        display. Cost: O(sources).
        """
        if not self.set_back_ns:
            return {}
        found = ((each.set_back_ns, each.source) for each in self.rows.values())
        return {source: ns for ns, source in nlargest(most, found) if ns}

    def allowance_ns(self) -> int:
        """Return how far below the newest time of its source an event is expected at most.

        This is twice the largest set-back, or 0 if times have only risen. Cost: O(1), or O(sources)
        after the source with the largest set-back was forgotten or has sent its end-of-stream
        marker.
        """
        if self.set_back_ns and not self._set_back_by:
            self.set_back_ns = 0
            for progress in self.rows.values():
                self.note_set_back(progress)
        return 2 * self.set_back_ns

    def add_live(self, progress: SourceProgress) -> None:
        """Add a source to the live ones; the caller changes its state afterwards."""
        if progress.state >= OUT:
            self.errors.add_entry(progress, is_live=True)
            self._live.push(progress.newest_ns, progress.source)

    def add_silent(self, progress: SourceProgress) -> None:
        """Add a source that is not live to the silent ones.

        If it sent an end-of-stream marker, `least_ns` removes it again.
        """
        progress.release_queue()
        self.errors.add_entry(progress, is_live=False)
        self._silent.push(progress.newest_ns, progress.source)

    def least_ns(self, *, is_live: bool) -> int:
        """Return the smallest newest time of the live sources, or of the silent ones.

        Silent sources that sent an end-of-stream marker do not count. The result is NEVER if there
        are no sources to count.
        """
        first = (self._live if is_live else self._silent).first()
        return NEVER if first is None else first[0]
