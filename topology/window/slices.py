"""Where windows of a fixed size begin and end, and the slices they are made of.

Windows [k every, k every + size) lie aligned to the epoch. The edges of all windows cut time
into slices; each window is a row of whole slices, and a slice belongs to size / every windows
(one more if that is no whole number, of which a slice has one or the other). A tumbling
window is one slice.
"""

from __future__ import annotations

from collections.abc import Collection


class Slices:
    """Named by where they start. `size_ns` >= `every_ns` > 0."""

    __slots__ = ("_cut_ns", "every_ns", "size_ns")

    def __init__(self, size_ns: int, every_ns: int) -> None:
        self.size_ns = size_ns
        self.every_ns = every_ns
        self._cut_ns = size_ns % every_ns

    def at(self, time_ns: int) -> int:
        """The slice that holds the instant."""
        since_ns = time_ns % self.every_ns
        if self._cut_ns and since_ns >= self._cut_ns:
            return time_ns - since_ns + self._cut_ns
        return time_ns - since_ns

    def after(self, start_ns: int) -> int:
        """The next slice."""
        since_ns = start_ns % self.every_ns
        if self._cut_ns and since_ns < self._cut_ns:
            return start_ns + self._cut_ns
        return start_ns - since_ns + self.every_ns

    def within(self, first_ns: int, last_ns: int, at_most: int) -> list[int]:
        """The slices from the instant `first` to `last`, at most so many."""
        found = [self.at(first_ns)]
        while len(found) <= at_most and (following := self.after(found[-1])) <= last_ns:
            found.append(following)
        return found[:at_most]

    def held(self, slices: Collection[int], start_ns: int) -> list[int]:
        """Those of `slices` that are part of the window, rising."""
        end_ns = start_ns + self.size_ns
        most = 2 * (self.size_ns // self.every_ns + 1)
        if len(slices) <= most:
            return sorted(each for each in slices if start_ns <= each < end_ns)
        return [each for each in self.within(start_ns, end_ns - 1, most) if each in slices]

    def windows(self, slice_ns: int) -> list[int]:
        """The starts of the windows that hold the slice, rising."""
        last = slice_ns - slice_ns % self.every_ns
        first = slice_ns - self.size_ns + 1
        first += -first % self.every_ns
        return list(range(first, last + 1, self.every_ns))

    def first_end(self, slice_ns: int, after_ns: int) -> int:
        """The first end of a window that holds the slice, after that instant; where all have
        ended, the last one's."""
        last_end_ns = self.last_end(slice_ns)
        first_ns = slice_ns - self.size_ns + 1
        first_ns += -first_ns % self.every_ns
        end_ns = first_ns + self.size_ns
        if after_ns >= end_ns:
            end_ns += ((after_ns - end_ns) // self.every_ns + 1) * self.every_ns
        return min(end_ns, last_end_ns)

    def last_end(self, slice_ns: int) -> int:
        return slice_ns - slice_ns % self.every_ns + self.size_ns
