"""When windows of fixed times end, so that nobody looks before it is worth it.

There are timers for the slices that hold anything, and for the windows that were emitted and are
not final. Cost: O(log slices) for each window that closes or becomes final; nothing for what is
kept.
"""

from __future__ import annotations

from topology.answer.frontier import Frontier
from topology.model.operator import NEVER
from topology.model.timers import Timers
from topology.window.slices import Slices


class SliceTimers:
    """Slices and windows are named by where they start. Each is announced once, until it is
    taken."""

    __slots__ = ("_closing", "_emitted", "_ending", "_slices", "next_final_ns")

    def __init__(self, slices: Slices) -> None:
        self._slices = slices
        self._closing: Timers[int] = Timers()
        """Slices, by the next end of a window that holds them."""
        self._ending: Timers[int] = Timers()
        """Slices, by the end of the last such window."""
        self._emitted: Timers[int] = Timers()
        """Windows, by their end."""
        self.next_final_ns: int = NEVER
        """Nothing becomes final before."""

    def expect(self, slice_ns: int, closed_ns: int) -> None:
        """The slice holds something now; what ends until `closed` has been emitted."""
        last_end_ns = self._slices.last_end(slice_ns)
        self._ending.arm(slice_ns, last_end_ns)
        self.next_final_ns = min(self.next_final_ns, last_end_ns)
        if last_end_ns > closed_ns:
            self._closing.arm(slice_ns, self._slices.first_end(slice_ns, closed_ns))

    def expect_final(self, start_ns: int) -> None:
        """A window that starts there was emitted and is not final."""
        end_ns = start_ns + self._slices.size_ns
        self._emitted.arm(start_ns, end_ns)
        self.next_final_ns = min(self.next_final_ns, end_ns)

    @property
    def oldest_end_ns(self) -> int:
        """Where the last window of the oldest slice ends."""
        return self._ending.next_ns

    def is_due(self, closed_ns: int, final_ns: int) -> bool:
        """Something closes, or is final, with the frontier there."""
        return closed_ns >= self._closing.next_ns or final_ns >= self.next_final_ns

    def room_ns(self, frontier: Frontier) -> int:
        """Nothing is due as long as its W is below."""
        return frontier.room_ns(self._closing.next_ns, self.next_final_ns)

    def closing(self, before_ns: int, closed_ns: int) -> set[int]:
        """The starts of the windows that end in (before, closed]."""
        starts: set[int] = set()
        if closed_ns < self._closing.next_ns:
            return starts
        size_ns = self._slices.size_ns
        for slice_ns in self._closing.due(closed_ns + 1):
            for start_ns in self._slices.windows(slice_ns):
                if before_ns < start_ns + size_ns <= closed_ns:
                    starts.add(start_ns)
            if self._slices.last_end(slice_ns) > closed_ns:
                self._closing.arm(slice_ns, self._slices.first_end(slice_ns, closed_ns))
        return starts

    def final_windows(self, final_ns: int) -> list[int]:
        """Those emitted that end until then, rising."""
        return self._taken(self._emitted, final_ns)

    def final_slices(self, final_ns: int) -> list[int]:
        """Those whose windows all end until then, rising."""
        return self._taken(self._ending, final_ns)

    def _taken(self, timers: Timers[int], final_ns: int) -> list[int]:
        taken = sorted(timers.due(final_ns + 1))
        self.next_final_ns = min(self._emitted.next_ns, self._ending.next_ns)
        return taken
