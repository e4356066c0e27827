"""The numbers a source was declared to have lost: they separate late from duplicate.

A sorted list of ranges per (source, epoch), at most `max_ranges` of them and none
older than `memory_ns`. What is evicted is forgotten for good: `floor` rises above
it, and a number below the floor may be a late event or a copy, nobody knows.
Look-up is O(log ranges), adding O(1), taking one out O(ranges) at worst.

The state is kept in pages of `PAGE` numbers, and only pages that changed are written: a
source that loses much and remembers it for an hour must not write it all ten times a second.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from typing import Any, Final

PAGE_BITS: Final = 10
PAGE: Final = 1 << PAGE_BITS


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


NO_RANGES: Final[list[Lost]] = []
NO_PAGES: Final[dict[int, None]] = {}
"""Those of a source that has lost nothing, so of most: empty ones of its own take 184 bytes."""


class LostRanges:
    """Ranges are added in rising order of number and of time."""

    __slots__ = ("_changed", "_max_ranges", "_memory_ns", "_ranges", "_written", "floor")

    def __init__(self, floor: int, max_ranges: int, memory_ns: int) -> None:
        self.floor = floor
        self._max_ranges = max_ranges
        self._memory_ns = memory_ns
        self._ranges = NO_RANGES
        self._changed = NO_PAGES  # as sets, of which an empty one takes 216 bytes
        self._written = NO_PAGES

    def add(self, first: int, last: int, known_at_ns: int, now_ns: int) -> None:
        if self._ranges is NO_RANGES:
            self._ranges, self._changed, self._written = [], {}, {}
        self._ranges.append(Lost(first, last, known_at_ns, now_ns))
        self._changed[first >> PAGE_BITS] = None
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
        self._changed[found.first >> PAGE_BITS] = None
        self._changed.update(dict.fromkeys(part.first >> PAGE_BITS for part in parts))
        self._evict(now_ns)
        return found

    def find(self, number: int) -> Lost | None:
        """The range `number` is in; nothing is changed."""
        i = bisect_right(self._ranges, number, key=first_of) - 1
        return self._ranges[i] if i >= 0 and number <= self._ranges[i].last else None

    def _evict(self, now_ns: int) -> None:
        ranges = self._ranges
        n = 0
        while n < len(ranges) and (
            len(ranges) - n > self._max_ranges or ranges[n].lost_at_ns + self._memory_ns < now_ns
        ):
            n += 1
        if n:
            self.floor = max(self.floor, ranges[n - 1].last + 1)
            self._changed.update(dict.fromkeys(lost.first >> PAGE_BITS for lost in ranges[:n]))
            del ranges[:n]

    # -- state: the floor, and the ranges by page --------------------------------------------------

    def pages(self) -> dict[int, Any]:
        """All pages that hold a range."""
        pages: dict[int, Any] = {}
        for lost in self._ranges:
            pages.setdefault(lost.first >> PAGE_BITS, []).append(_plain(lost))
        return pages

    def changed_pages(self) -> dict[int, Any]:
        """What changed since the last call; None: the page was removed."""
        changed: dict[int, Any] = {}
        for page in sorted(self._changed):
            ranges = self._ranges[self._at(page << PAGE_BITS) : self._at((page + 1) << PAGE_BITS)]
            if ranges:
                changed[page] = [_plain(lost) for lost in ranges]
                self._written[page] = None
            elif page in self._written:
                changed[page] = None
                del self._written[page]
        self._changed.clear()
        return changed

    def written_pages(self) -> set[int]:
        """Those that must go when the ledger goes."""
        return set(self._written)

    def _at(self, number: int) -> int:
        return bisect_left(self._ranges, number, key=first_of)

    def restore(self, pages: Mapping[int, Any]) -> None:
        """All pages; the floor is set by the caller."""
        if not pages:
            return
        self._changed = {}
        self._written = dict.fromkeys(pages)
        self._ranges = [
            Lost(first, last, known_ns, lost_ns)
            for page in sorted(pages)
            for first, last, known_ns, lost_ns in pages[page]
        ]


def _plain(lost: Lost) -> Any:
    return [lost.first, lost.last, lost.known_at_ns, lost.lost_at_ns]
