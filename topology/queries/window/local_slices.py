"""Computes windows that are cut by the local time of a zone, like days, shifts and weeks.

A window begins when the zone's clock shows one of its times. These are the multiples of the step
after `from_ns`, counted from midnight of 1970-01-01. Steps divide a day, or are whole days.
When the clock is set forward, the windows that it skips do not exist, and the one that it skips
into begins at that instant. When it is set back, there are two cases:

* By less than the step, which is usual: a window begins when the clock first shows its time. So a
  day has 23 or 25 hours, and a shift of 8 hours has 7 or 9.
* By the step or more: each time that the clock shows begins a window. So the hour that comes twice
  is two windows of one hour.

A sliding window is `size_ns / every_ns` consecutive slices, each of which is one step. All of this
follows from the rules of the zone (`topology.answer.query.zone`), never from the events.

Cost: a bisection for each slice. A sliding window in which the clock is set costs O(slices), once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from topology.answer.frontier import FOR_EVER, NOT_YET
from topology.answer.query.zone import ZoneClock, ZoneSpan
from topology.queries.window.settings import Window
from topology.queries.window.slices import Slices

MAX_ENDS: Final = 10_000
"""The maximum number of windows whose ends are remembered; then all are forgotten."""


class LocalSlices(Slices):
    """The slices of a query whose windows are cut by local time."""

    __slots__ = ("_clock", "_ends", "_from_ns", "_last_end_ns", "_last_ns", "_steps")

    def __init__(self, windows: Window) -> None:
        super().__init__(windows.size_ns, windows.step_ns)
        self._from_ns = windows.from_ns
        self._clock = ZoneClock(windows.zone)
        self._steps = windows.size_ns // windows.step_ns
        self._ends: dict[int, int] = {}
        self._last_ns = self._last_end_ns = 0

    def at(self, time_ns: int) -> int:
        if not self._last_ns <= time_ns < self._last_end_ns:
            self._last_ns = self._begin(time_ns)
            self._last_end_ns = self._next(self._last_ns)
        return self._last_ns

    def after(self, start_ns: int) -> int:
        is_last = start_ns == self._last_ns < self._last_end_ns
        return self._last_end_ns if is_last else self._next(start_ns)

    def end(self, start_ns: int) -> int:
        if self._steps == 1:
            return self.after(start_ns)
        end_ns = start_ns + self.size_ns
        stretch = self._clock.stretch_at(start_ns)
        if stretch.end_ns > end_ns and not self._time_since_start(start_ns, stretch.offset_ns):
            return end_ns
        known_ns = self._ends.get(start_ns)
        if known_ns is None:
            known_ns = start_ns
            for _ in range(self._steps):
                known_ns = self._next(known_ns)
            if len(self._ends) >= MAX_ENDS:
                self._ends.clear()
            self._ends[start_ns] = known_ns
        return known_ns

    def windows(self, slice_ns: int) -> Sequence[int]:
        first_ns = slice_ns - (self._steps - 1) * self.every_ns
        if first_ns >= self._first(self._clock.stretch_at(slice_ns)):
            return range(first_ns, slice_ns + 1, self.every_ns)
        found = [slice_ns]
        while len(found) < self._steps:
            found.append(self._begin(found[-1] - 1))
        return found[::-1]

    def first_end(self, slice_ns: int, after_ns: int) -> int:
        starts = self.windows(slice_ns)
        ends = (end_ns for each in starts if (end_ns := self.end(each)) > after_ns)
        return next(ends, self.last_end(slice_ns))

    def last_end(self, slice_ns: int) -> int:
        return self.end(slice_ns)

    def last_start_of(self, slice_ns: int) -> int:
        return slice_ns

    def next_start(self, slice_ns: int) -> int:
        return self.after(slice_ns)

    def starts(self, first_ns: int, last_ns: int) -> Iterator[int]:
        start_ns = self.at(first_ns)
        if start_ns < first_ns:
            start_ns = self.after(start_ns)
        while start_ns <= last_ns:
            yield start_ns
            start_ns = self.after(start_ns)

    def first_open(self, time_ns: int) -> int:
        return self.windows(self.at(time_ns))[0] if NOT_YET < time_ns < FOR_EVER else time_ns

    # -- Local time --------------------------------------------------------------------------------

    def _begin(self, time_ns: int) -> int:
        """Return the newest start at or before the instant."""
        while True:
            stretch = self._clock.stretch_at(time_ns)
            start_ns = time_ns - self._time_since_start(time_ns, stretch.offset_ns)
            if start_ns >= self._first(stretch):
                return start_ns
            if self._is_skipped_into(stretch):
                return stretch.start_ns
            time_ns = stretch.start_ns - 1

    def _next(self, start_ns: int) -> int:
        """Return the first start after the instant."""
        stretch = self._clock.stretch_at(start_ns)
        found_ns = start_ns - self._time_since_start(start_ns, stretch.offset_ns) + self.every_ns
        while True:
            first_ns = self._first(stretch)
            if found_ns < first_ns:
                found_ns = (
                    first_ns + -self._time_since_start(first_ns, stretch.offset_ns) % self.every_ns
                )
            if found_ns < stretch.end_ns:
                return found_ns
            stretch = self._clock.stretch_at(stretch.end_ns)
            found_ns = stretch.start_ns
            if self._is_skipped_into(stretch):
                return found_ns
            found_ns += -self._time_since_start(found_ns, stretch.offset_ns) % self.every_ns

    def _time_since_start(self, time_ns: int, offset_ns: int) -> int:
        """Return how long ago a clock with this offset showed the newest time of a start."""
        return (time_ns + offset_ns - self._from_ns) % self.every_ns

    def _first(self, stretch: ZoneSpan) -> int:
        """Return the instant of the stretch from which each shown time begins a window."""
        back_ns = stretch.before_ns - stretch.offset_ns
        return stretch.start_ns + back_ns if 0 < back_ns < self.every_ns else stretch.start_ns

    def _is_skipped_into(self, stretch: ZoneSpan) -> bool:
        """Return whether the clock is set forward into another window at the stretch's start."""
        forward_ns = stretch.offset_ns - stretch.before_ns
        return self._time_since_start(stretch.start_ns, stretch.offset_ns) <= forward_ns
