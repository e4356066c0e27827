"""The numbers a source was declared to have lost: tells late from duplicate.

A sorted list of ranges per (source, epoch), at most `max_ranges` of them and none
older than `memory_ns`. What is evicted is forgotten for good: `floor` rises above
it, and a number below the floor may be a late event or a copy, nobody knows.
Look-up is O(log ranges), adding O(1), taking one out O(ranges) at worst.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Any


class Lost:
    """Numbers `first`..`last`, missing since `known_at_ns`, given up at `lost_at_ns`."""

    __slots__ = ("first", "known_at_ns", "last", "lost_at_ns")

    def __init__(self, first: int, last: int, known_at_ns: int, lost_at_ns: int) -> None:
        self.first = first
        self.last = last
        self.known_at_ns = known_at_ns
        self.lost_at_ns = lost_at_ns


def first_of(lost: Lost) -> int:
    return lost.first


class LostRanges:
    """Ranges are added in rising order of number and of time."""

    __slots__ = ("_max_ranges", "_memory_ns", "_ranges", "floor")

    def __init__(self, floor: int, max_ranges: int, memory_ns: int) -> None:
        self.floor = floor
        self._max_ranges = max_ranges
        self._memory_ns = memory_ns
        self._ranges: list[Lost] = []

    def __len__(self) -> int:
        return len(self._ranges)

    def add(self, first: int, last: int, known_at_ns: int, now_ns: int) -> None:
        self._ranges.append(Lost(first, last, known_at_ns, now_ns))
        self._evict(now_ns)

    def take(self, number: int, now_ns: int) -> Lost | None:
        """The range `number` was in, and the number leaves it; None if it is in none."""
        self._evict(now_ns)
        ranges = self._ranges
        i = bisect_right(ranges, number, key=first_of) - 1
        if i < 0 or ranges[i].last < number:
            return None
        found = ranges[i]
        parts = []
        if found.first < number:
            parts.append(Lost(found.first, number - 1, found.known_at_ns, found.lost_at_ns))
        if number < found.last:
            parts.append(Lost(number + 1, found.last, found.known_at_ns, found.lost_at_ns))
        ranges[i : i + 1] = parts
        self._evict(now_ns)
        return found

    def _evict(self, now_ns: int) -> None:
        ranges = self._ranges
        n = 0
        while n < len(ranges) and (
            len(ranges) - n > self._max_ranges or ranges[n].lost_at_ns + self._memory_ns < now_ns
        ):
            n += 1
        if n:
            self.floor = max(self.floor, ranges[n - 1].last + 1)
            del ranges[:n]

    def snapshot(self) -> Any:
        return [
            self.floor,
            [[lost.first, lost.last, lost.known_at_ns, lost.lost_at_ns] for lost in self._ranges],
        ]

    def restore(self, state: Any) -> None:
        self.floor, ranges = state
        self._ranges = [Lost(first, last, known, at) for first, last, known, at in ranges]
