"""The sources that MERGE knows, in a table of sources (topology.model.sources).

Two heaps find the least of their newest times without a look at each: of those that are live, and
of those that are not and have not said bye. A newest time only rises, so an entry may be too old:
it is put right when it comes up. Cost: O(log sources) for each live source that has moved.
"""

from __future__ import annotations

from functools import partial
from heapq import heapify, heappop, heappush, heapreplace
from typing import Final

from topology.merge.errors import LargestErrors
from topology.merge.settings import MergeConfig
from topology.merge.source import OUT, SourceProgress
from topology.model.histogram import Histogram
from topology.model.operator import NEVER
from topology.model.sources import SourceTable

SPARE: Final = 1_000
"""Entries of forgotten sources that are not worth throwing out."""


class KnownSources(SourceTable[SourceProgress]):
    """What MERGE knows of its sources; the parts of a `Merge` share it.

    Attributes:
        pool: The delays of all.
        errors: Finds the largest of their time errors.
        scattered: Those whose events came by several input partitions, not by one.
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
        self._live: list[tuple[int, str]] = []
        self._silent: list[tuple[int, str]] = []

    def put(self, key: str, row: SourceProgress) -> None:
        """Take in a source that was not known, or that a state names."""
        super().put(key, row)
        self.falls_silent(row)
        if max(len(self._live), len(self._silent)) > 2 * len(self.rows) + SPARE:
            self._throw_out()

    def forget(self, key: str) -> None:
        super().forget(key)
        self.scattered.discard(key)

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

    def least_ns(self, *, is_live: bool) -> int:
        """Return the least newest time of the live sources, or of those that are not live and have
        not said bye; NEVER: there are none."""
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

    def _throw_out(self) -> None:
        """A source that was forgotten and came again has several entries."""
        known = self.rows.values()
        self._live = [(each.newest_ns, each.source) for each in known if each.in_live]
        self._silent = [(each.newest_ns, each.source) for each in known if each.in_silent]
        heapify(self._live)
        heapify(self._silent)
