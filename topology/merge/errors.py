"""How unsure the least sure source is: the largest error of those that are live, and of those that
are not and have not said bye.

Two heaps find them without a look at each. A source has an entry in that of its present state which
is at least its error, so it is noted when its error grows, and when it becomes live or silent. An
error that has fallen is put right when its entry comes up. Cost: O(log sources) for each source
that is noted. Memory: at most two entries a source in each heap, and `SPARE`.
"""

from __future__ import annotations

from collections.abc import Mapping
from heapq import heapify, heappop, heappush, heapreplace
from typing import Final

from topology.merge.source import OUT, SourceProgress

SPARE: Final = 1_000
"""Entries that count for nothing and are not worth throwing out."""


class LargestErrors:
    """Finds them among the sources in the `table` of a `Merge`."""

    __slots__ = ("_live", "_silent", "_table")

    def __init__(self, table: Mapping[str, SourceProgress]) -> None:
        self._table = table
        self._live: list[tuple[int, str]] = []  # (-error, source)
        self._silent: list[tuple[int, str]] = []

    def grows(self, progress: SourceProgress) -> None:
        """Its error is larger than what was noted."""
        self.moves(progress, progress.state < OUT)

    def moves(self, progress: SourceProgress, is_live: bool) -> None:
        """From now on it is live, or is not."""
        heap = self._live if is_live else self._silent
        if len(heap) > 2 * len(self._table) + SPARE:
            self._throw_out()
            heap = self._live if is_live else self._silent
        progress.noted_error_ns = progress.error_ns
        if progress.error_ns > 0:
            heappush(heap, (-progress.error_ns, progress.source))

    def largest_ns(self, *, is_live: bool) -> int:
        """Return the largest error of the live sources, or of those that are not live and have not
        said bye; 0: all are sure, or there are none."""
        heap = self._live if is_live else self._silent
        while heap:
            minus_ns, source = heap[0]
            progress = self._table.get(source)
            if progress is None or (progress.state < OUT) != is_live:
                heappop(heap)
            elif progress.said_bye and not is_live:
                heappop(heap)  # it is noted again when it takes its bye back
            elif progress.error_ns >= -minus_ns:
                return -minus_ns
            elif progress.noted_error_ns < -minus_ns:
                heappop(heap)  # it has a later one
            else:
                progress.noted_error_ns = progress.error_ns
                heapreplace(heap, (-progress.error_ns, source))
        return 0

    def _throw_out(self) -> None:
        known = self._table.values()
        for each in known:
            each.noted_error_ns = each.error_ns
        self._live = [(-each.error_ns, each.source) for each in known if each.state < OUT]
        self._silent = [(-each.error_ns, each.source) for each in known if each.state >= OUT]
        heapify(self._live)
        heapify(self._silent)
