"""Defines the table of the sources that MERGE knows (topology.model.sources).

Two heaps find the smallest newest time without a look at each source. One is for live sources, the
other for silent ones without an end-of-stream marker. A newest time only rises, so an entry may be
too old. It is corrected when it reaches the top. Cost: O(log sources) for each live source whose
newest time has risen.
"""

from __future__ import annotations

from functools import partial
from heapq import heapify, heappop, heappush, heapreplace, nlargest
from typing import Final

from topology.merge.errors import LargestErrors
from topology.merge.settings import MergeConfig
from topology.merge.source import OUT, SourceProgress
from topology.model.histogram import Histogram
from topology.model.operator import NEVER
from topology.model.sources import SourceTable

SPARE: Final = 1_000
"""The number of obsolete entries that a heap may have before they are removed."""


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
            "feed/", progress_class.SHAPE, make, reorder.max_sources, reorder.forget_after_ns
        )
        self.pool = Histogram(config.miss_target_ppm)
        self.errors = LargestErrors(self.rows)
        self.scattered: set[str] = set()
        self.set_back_ns = 0
        self._set_back_by = ""
        self._live: list[tuple[int, str]] = []
        self._silent: list[tuple[int, str]] = []

    def put(self, key: str, row: SourceProgress) -> None:
        """Add a new source, or one from a restored state."""
        super().put(key, row)
        self.add_silent(row)
        self.note_set_back(row)
        if max(len(self._live), len(self._silent)) > 2 * len(self.rows) + SPARE:
            self._compact()

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
        if not progress.in_live:
            progress.in_live = True
            heappush(self._live, (progress.newest_ns, progress.source))

    def add_silent(self, progress: SourceProgress) -> None:
        """Add a source that is not live to the silent ones.

        If it sent an end-of-stream marker, `least_ns` removes it again.
        """
        progress.release_queue()
        self.errors.add_entry(progress, is_live=False)
        if not progress.in_silent:
            progress.in_silent = True
            heappush(self._silent, (progress.newest_ns, progress.source))

    def least_ns(self, *, is_live: bool) -> int:
        """Return the smallest newest time of the live sources, or of the silent ones.

        Silent sources that sent an end-of-stream marker do not count. The result is NEVER if there
        are no sources to count.
        """
        heap = self._live if is_live else self._silent
        while heap:
            known_ns, source = heap[0]
            progress = self.rows.get(source)
            if progress is None:
                heappop(heap)
            elif (progress.state < OUT) != is_live or (progress.said_bye and not is_live):
                heappop(heap)
                progress.in_live &= not is_live
                progress.in_silent &= is_live
            elif progress.newest_ns > known_ns:
                heapreplace(heap, (progress.newest_ns, source))
            else:
                return known_ns
        return NEVER

    def _compact(self) -> None:
        """Remove duplicate entries of sources that were forgotten and then seen again."""
        known = self.rows.values()
        self._live = [(each.newest_ns, each.source) for each in known if each.in_live]
        self._silent = [(each.newest_ns, each.source) for each in known if each.in_silent]
        heapify(self._live)
        heapify(self._silent)
