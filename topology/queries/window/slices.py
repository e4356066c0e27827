"""Computes where windows of a fixed size begin and end, and which slices make them up.

Windows [k every, k every + size) are aligned to the Unix epoch; `local_slices` cuts windows by the
local time of a zone. The edges of all windows divide time into slices, so each window is a sequence
of whole slices. A slice belongs to size / every windows, rounded down or up if that is not a whole
number. A tumbling window is one slice.

`SliceTimers` has the times at which windows end, so no window is examined before its end. Cost:
O(log slices) for each window that closes or becomes final, and nothing for windows that are kept.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from topology.answer.frontier import Frontier
from topology.base.timers import Timers


class Slices:
    """The slices of a query, each identified by its start; `size_ns` >= `every_ns` > 0."""

    __slots__ = ("_cut_ns", "every_ns", "size_ns")

    def __init__(self, size_ns: int, every_ns: int) -> None:
        self.size_ns = size_ns
        self.every_ns = every_ns
        self._cut_ns = size_ns % every_ns

    def at(self, time_ns: int) -> int:
        """Return the slice that contains the instant."""
        since_ns = time_ns % self.every_ns
        if self._cut_ns and since_ns >= self._cut_ns:
            return time_ns - since_ns + self._cut_ns
        return time_ns - since_ns

    def after(self, start_ns: int) -> int:
        """Return the slice after the one that starts at `start_ns`."""
        since_ns = start_ns % self.every_ns
        if self._cut_ns and since_ns < self._cut_ns:
            return start_ns + self._cut_ns
        return start_ns - since_ns + self.every_ns

    def within(self, first_ns: int, last_ns: int, at_most: int) -> list[int]:
        """Return the slices from the first instant to the last, at most `at_most` of them."""
        found = [self.at(first_ns)]
        while len(found) <= at_most and (following := self.after(found[-1])) <= last_ns:
            found.append(following)
        return found[:at_most]

    def find_held(self, slices: Collection[int], start_ns: int) -> list[int]:
        """Return those of `slices` that are part of the window at `start_ns`, ascending."""
        end_ns = self.end(start_ns)
        most = 2 * (self.size_ns // self.every_ns + 1)
        if len(slices) <= most:
            return sorted(each for each in slices if start_ns <= each < end_ns)
        return [each for each in self.within(start_ns, end_ns - 1, most) if each in slices]

    def end(self, start_ns: int) -> int:
        """Return the end of the window that starts at `start_ns`."""
        return start_ns + self.size_ns

    def windows(self, slice_ns: int) -> Sequence[int]:
        """Return the starts of the windows that contain the slice, ascending."""
        first = slice_ns - self.size_ns + 1
        return range(first + -first % self.every_ns, slice_ns + 1, self.every_ns)

    def first_end(self, slice_ns: int, after_ns: int) -> int:
        """Return the first end after `after_ns` of the windows that contain the slice.

        If all such windows have ended, return the end of the last one.
        """
        starts = self.windows(slice_ns)
        ended = (after_ns - self.size_ns - starts[0]) // self.every_ns + 1
        return starts[min(max(ended, 0), len(starts) - 1)] + self.size_ns

    def last_start_of(self, slice_ns: int) -> int:
        """Return the start of the last window that contains the slice."""
        return slice_ns - slice_ns % self.every_ns

    def next_start(self, slice_ns: int) -> int:
        """Return the start of the first window after those that contain the slice."""
        return self.last_start_of(slice_ns) + self.every_ns

    def starts(self, first_ns: int, last_ns: int) -> Iterable[int]:
        """Return the starts of the windows from one instant to another, both included."""
        return range(first_ns + -first_ns % self.every_ns, last_ns + 1, self.every_ns)

    def first_open(self, time_ns: int) -> int:
        """Return an instant at or after which all windows begin that end after `time_ns`.

        No window that ends at or before `time_ns` begins there.
        """
        return time_ns - self.size_ns + 1

    def last_end(self, slice_ns: int) -> int:
        return slice_ns - slice_ns % self.every_ns + self.size_ns


class SliceTimers:
    """The timers of a query's slices and windows, each identified by its start.

    A timer that has fired does not fire again until it is armed again.
    """

    __slots__ = ("_closing", "_slices", "emitted", "ending")

    def __init__(self, slices: Slices) -> None:
        self._slices = slices
        self._closing: Timers[int] = Timers()
        """The slices, by the next end of a window that contains them."""
        self.ending: Timers[int] = Timers()
        """The slices, by the end of the last window that contains them."""
        self.emitted: Timers[int] = Timers()
        """The windows that were emitted and are not final, by their end."""

    def arm_slice(self, slice_ns: int, closed_ns: int) -> None:
        """Arm the timers of a slice that now has events.

        Windows that end at or before `closed_ns` have been emitted.
        """
        last_end_ns = self._slices.last_end(slice_ns)
        self.ending.arm(slice_ns, last_end_ns)
        if last_end_ns > closed_ns:
            self._closing.arm(slice_ns, self._slices.first_end(slice_ns, closed_ns))

    def arm_final(self, start_ns: int) -> None:
        """Arm the timer of a window that was emitted and is not final."""
        self.emitted.arm(start_ns, self._slices.end(start_ns))

    def is_due(self, closed_ns: int, final_ns: int) -> bool:
        """Return whether any window closes or becomes final at these times."""
        return closed_ns >= self._closing.next_ns or final_ns >= self._next_final_ns

    def next_due_ns(self, frontier: Frontier) -> int:
        """Return the instant that W must reach before anything becomes due."""
        return frontier.next_settle_ns(self._closing.next_ns, self._next_final_ns)

    @property
    def _next_final_ns(self) -> int:
        return min(self.emitted.next_ns, self.ending.next_ns)

    def take_closing(self, before_ns: int, closed_ns: int) -> set[int]:
        """Return the starts of the windows that end in (`before_ns`, `closed_ns`]."""
        starts: set[int] = set()
        if closed_ns < self._closing.next_ns:
            return starts
        end = self._slices.end
        for slice_ns in self._closing.due(closed_ns + 1):
            for start_ns in self._slices.windows(slice_ns):
                if before_ns < end(start_ns) <= closed_ns:
                    starts.add(start_ns)
            if self._slices.last_end(slice_ns) > closed_ns:
                self._closing.arm(slice_ns, self._slices.first_end(slice_ns, closed_ns))
        return starts
