"""When windows of fixed times end, so that nobody looks before it is worth it."""

from __future__ import annotations

from collections.abc import Iterable

from topology.window.frontier import FOR_EVER
from topology.window.slices import Slices


class Agenda:
    """Of the slices that hold anything, and of the windows that were told."""

    __slots__ = ("_next_end_ns", "_slices", "next_final_ns")

    def __init__(self, slices: Slices) -> None:
        self._slices = slices
        self._next_end_ns = FOR_EVER
        self.next_final_ns = FOR_EVER

    def expect(self, slice_ns: int, closed_ns: int) -> None:
        """The slice holds something; what ends until `closed` has been told."""
        last_end_ns = self._slices.last_end(slice_ns)
        if last_end_ns > closed_ns:
            end_ns = self._slices.first_end(slice_ns, closed_ns)
            self._next_end_ns = min(self._next_end_ns, end_ns)
        self.expect_final(last_end_ns)

    def expect_final(self, end_ns: int) -> None:
        """Something that ends there is kept until that is final."""
        self.next_final_ns = min(self.next_final_ns, end_ns)

    def closing(self, held: Iterable[int], before_ns: int, closed_ns: int) -> set[int]:
        """The starts of the windows that end in (before, closed]; `held` are the slices."""
        starts: set[int] = set()
        if closed_ns < self._next_end_ns:
            return starts
        size_ns = self._slices.size_ns
        self._next_end_ns = FOR_EVER
        for slice_ns in held:
            last_end_ns = self._slices.last_end(slice_ns)
            if last_end_ns <= before_ns:
                continue
            for start_ns in self._slices.windows(slice_ns):
                if before_ns < start_ns + size_ns <= closed_ns:
                    starts.add(start_ns)
            if last_end_ns > closed_ns:
                end_ns = self._slices.first_end(slice_ns, closed_ns)
                self._next_end_ns = min(self._next_end_ns, end_ns)
        return starts

    def renew(self, held: Iterable[int], told: Iterable[int]) -> None:
        """What is left after the final ones have gone."""
        ends = [start_ns + self._slices.size_ns for start_ns in told]
        ends += [self._slices.last_end(slice_ns) for slice_ns in held]
        self.next_final_ns = min(ends, default=FOR_EVER)
