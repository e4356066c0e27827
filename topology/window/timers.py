"""When windows of fixed times end, so that nobody looks before it is worth it.

Of the slices that hold anything, and of the windows that were told: those that are open, and those
that are kept until they are final, the oldest first. Cost: of what closes or becomes final, and of
what is open; not of what is kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush

from topology.query.frontier import FOR_EVER
from topology.query.slices import Slices


class Agenda:
    """Slices and windows are named by where they start. Each is announced once, until it is
    taken."""

    __slots__ = ("_kept", "_next_end_ns", "_open", "_slices", "_told", "next_final_ns")

    def __init__(self, slices: Slices) -> None:
        self._slices = slices
        self._open: set[int] = set()
        self._kept: list[int] = []
        self._told: list[int] = []
        self._next_end_ns = FOR_EVER
        self.next_final_ns = FOR_EVER
        """Nothing becomes final before."""

    def expect(self, slice_ns: int, closed_ns: int) -> None:
        """The slice holds something now; what ends until `closed` has been told."""
        heappush(self._kept, slice_ns)
        last_end_ns = self._slices.last_end(slice_ns)
        self.next_final_ns = min(self.next_final_ns, last_end_ns)
        if last_end_ns > closed_ns:
            self._open.add(slice_ns)
            self._next_end_ns = min(self._next_end_ns, self._slices.first_end(slice_ns, closed_ns))

    def expect_final(self, start_ns: int) -> None:
        """A window that starts there was told and is not final."""
        heappush(self._told, start_ns)
        self.next_final_ns = min(self.next_final_ns, start_ns + self._slices.size_ns)

    @property
    def oldest_end_ns(self) -> int:
        """Where the last window of the oldest slice ends."""
        return self._slices.last_end(self._kept[0]) if self._kept else FOR_EVER

    def is_due(self, closed_ns: int, final_ns: int) -> bool:
        """Something closes, or is final, with the frontier there."""
        return closed_ns >= self._next_end_ns or final_ns >= self.next_final_ns

    def closing(self, before_ns: int, closed_ns: int) -> set[int]:
        """The starts of the windows that end in (before, closed]."""
        starts: set[int] = set()
        if closed_ns < self._next_end_ns:
            return starts
        size_ns = self._slices.size_ns
        self._next_end_ns = FOR_EVER
        for slice_ns in list(self._open):
            for start_ns in self._slices.windows(slice_ns):
                if before_ns < start_ns + size_ns <= closed_ns:
                    starts.add(start_ns)
            if self._slices.last_end(slice_ns) <= closed_ns:
                self._open.discard(slice_ns)
            else:
                end_ns = self._slices.first_end(slice_ns, closed_ns)
                self._next_end_ns = min(self._next_end_ns, end_ns)
        return starts

    def final_windows(self, final_ns: int) -> Iterator[int]:
        """Those told that end until then, rising."""
        while self._told and self._told[0] + self._slices.size_ns <= final_ns:
            yield heappop(self._told)
        self._look_ahead()

    def final_slices(self, final_ns: int) -> Iterator[int]:
        """Those whose windows all end until then, rising."""
        while self._kept and self._slices.last_end(self._kept[0]) <= final_ns:
            yield heappop(self._kept)
        self._look_ahead()

    def _look_ahead(self) -> None:
        told_ns = self._told[0] + self._slices.size_ns if self._told else FOR_EVER
        self.next_final_ns = min(told_ns, self.oldest_end_ns)
