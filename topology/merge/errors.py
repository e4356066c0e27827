"""Finds the largest time error, separately for live and for silent sources.

A silent source that sent an end-of-stream marker does not count.

Two heaps find the largest error without a look at each source. A source has an entry in the heap of
its current state, and the entry is at least its error. So an entry is added when the error grows,
and when the source becomes live or silent. If the error has fallen, the entry is corrected when it
reaches the top.

Cost: O(log sources) for each entry that is added. Memory: at most two entries a source in each
heap, plus `SPARE` entries.
"""

from __future__ import annotations

from collections.abc import Mapping
from heapq import heapify, heappop, heappush, heapreplace
from typing import Final

from topology.merge.source import OUT, SourceProgress

SPARE: Final = 1_000
"""The number of obsolete entries that a heap may have before they are removed."""


class LargestErrors:
    """The largest time errors of the sources in the `table` of a `Merge`."""

    __slots__ = ("_live", "_silent", "_table")

    def __init__(self, table: Mapping[str, SourceProgress]) -> None:
        self._table = table
        self._live: list[tuple[int, str]] = []  # A heap of (-error, source).
        self._silent: list[tuple[int, str]] = []

    def record_growth(self, progress: SourceProgress) -> None:
        """Record that the error of a source has become larger than its entry in the heap."""
        self.add_entry(progress, progress.state < OUT)

    def add_entry(self, progress: SourceProgress, is_live: bool) -> None:
        """Add an entry for a source that becomes live or silent, or whose error has grown."""
        heap = self._live if is_live else self._silent
        if len(heap) > 2 * len(self._table) + SPARE:
            self._compact()
            heap = self._live if is_live else self._silent
        progress.recorded_error_ns = progress.error_ns
        if progress.error_ns > 0:
            heappush(heap, (-progress.error_ns, progress.source))

    def largest_ns(self, *, is_live: bool) -> int:
        """Return the largest error of the live sources, or of the silent ones.

        Silent sources that sent an end-of-stream marker do not count. The result is 0 if no source
        has an error.
        """
        heap = self._live if is_live else self._silent
        while heap:
            minus_ns, source = heap[0]
            progress = self._table.get(source)
            if progress is None or (progress.state < OUT) != is_live:
                heappop(heap)
            elif progress.said_bye and not is_live:
                heappop(heap)  # It is added again when the source sends more after its marker.
            elif progress.error_ns >= -minus_ns:
                return -minus_ns
            elif progress.recorded_error_ns < -minus_ns:
                heappop(heap)  # The source has a later entry.
            else:
                progress.recorded_error_ns = progress.error_ns
                heapreplace(heap, (-progress.error_ns, source))
        return 0

    def _compact(self) -> None:
        known = self._table.values()
        for each in known:
            each.recorded_error_ns = each.error_ns
        self._live = [(-each.error_ns, each.source) for each in known if each.state < OUT]
        self._silent = [(-each.error_ns, each.source) for each in known if each.state >= OUT]
        heapify(self._live)
        heapify(self._silent)
