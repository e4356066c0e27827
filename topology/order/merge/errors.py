"""Finds the largest time error, separately for live and for silent sources.

A silent source that sent an end-of-stream marker does not count.

A source has an entry in the heap of its current state, and the entry is at least its error
(`topology.base.lazy_heap`). So an entry is added when the error grows beyond it, and when the
source becomes live or silent. Cost: O(log sources) for each entry that is added.
"""

from __future__ import annotations

from collections.abc import Mapping

from topology.base.lazy_heap import LazyHeap
from topology.order.merge.source import OUT, SourceProgress


class SourceHeap(LazyHeap):
    """The live sources, or the silent ones without an end-of-stream marker, by a key."""

    __slots__ = ("_is_live", "_table")

    def __init__(self, table: Mapping[str, SourceProgress], *, is_live: bool) -> None:
        super().__init__()
        self._table = table
        self._is_live = is_live

    def find_key(self, name: str) -> int | None:
        progress = self._table.get(name)
        if progress is None or (progress.state < OUT) != self._is_live:
            return None
        if progress.said_bye and not self._is_live:
            return None  # It is added again when the source sends more after its marker.
        return self.key_of(progress)

    def key_of(self, progress: SourceProgress) -> int:
        """Return the key of a source that the heap has."""
        raise NotImplementedError


class ErrorHeap(SourceHeap):
    """Sources by their time errors, the largest first."""

    __slots__ = ()

    def key_of(self, progress: SourceProgress) -> int:
        progress.recorded_error_ns = progress.error_ns
        return -progress.error_ns


class LargestErrors:
    """The largest time errors of the sources in the `table` of a `Merge`."""

    __slots__ = ("_live", "_silent")

    def __init__(self, table: Mapping[str, SourceProgress]) -> None:
        self._live = ErrorHeap(table, is_live=True)
        self._silent = ErrorHeap(table, is_live=False)

    def record_growth(self, progress: SourceProgress) -> None:
        """Record that the error of a source has become larger than its entry in the heap."""
        self.add_entry(progress, is_live=progress.state < OUT)

    def add_entry(self, progress: SourceProgress, *, is_live: bool) -> None:
        """Add an entry for a source that becomes live or silent, or whose error has grown."""
        progress.recorded_error_ns = progress.error_ns
        if progress.error_ns > 0:
            heap = self._live if is_live else self._silent
            heap.push(-progress.error_ns, progress.source)

    def largest_ns(self, *, is_live: bool) -> int:
        """Return the largest error of the live sources, or of the silent ones.

        Silent sources that sent an end-of-stream marker do not count. The result is 0 if no source
        has an error.
        """
        first = (self._live if is_live else self._silent).first()
        return 0 if first is None else -first[0]
