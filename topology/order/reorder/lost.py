"""Remembers the numbers that a source has lost, to distinguish late events from duplicates.

Each (source, epoch) has a sorted list of at most `max_ranges` ranges. Ranges that were given up
more than `memory_ns` ago are evicted when the list is next used. When a range is evicted, `floor`
rises above it. An event with a number below the floor may be late or a duplicate. A look-up costs
O(log ranges), adding a range O(1), and removing a number O(ranges) at worst.

The state is saved in pages of `PAGE` numbers, and only changed pages are written. Otherwise a
source with many losses would write an hour of lost ranges ten times a second.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from typing import Final, NamedTuple

from topology.base.native import mypyc_attr
from topology.base.ranges import find_range, first_of, take_number
from topology.state.saved import INT, Saved, list_of, record
from topology.state.tables import Table

LOST: Final = "lost/"
PAGE_BITS: Final = 10
PAGE: Final = 1 << PAGE_BITS

Page = tuple[str, int, int]
"""The key of a page: a source, an epoch, and the index of the page."""


class Lost(NamedTuple):
    """A range of lost numbers, missing since `known_at_ns` and given up at `lost_at_ns`."""

    first: int
    last: int
    known_at_ns: int
    lost_at_ns: int


RANGES: Final = list_of(record(Lost, first=INT, last=INT, known_at_ns=INT, lost_at_ns=INT))
NO_RANGES: Final[list[Lost]] = []
"""An empty list shared by all sources that have lost nothing, since each list takes 56 bytes."""


class LostPages(Table[Page, list[Lost]]):
    """The lost numbers of all ledgers, saved in pages, and the bounds that each ledger has."""

    source_at = 2

    def __init__(self, max_ranges: int, memory_ns: int) -> None:
        super().__init__(LOST, RANGES)
        self.max_ranges = max_ranges
        self.memory_ns = memory_ns
        self.ledgers: dict[tuple[str, int], list[Lost]] = {}

    def all_keys(self) -> Iterable[Page]:
        for (source, epoch), ranges in self.ledgers.items():
            at = 0
            while at < len(ranges):
                page = ranges[at].first >> PAGE_BITS
                yield source, epoch, page
                at = bisect_left(ranges, (page + 1) << PAGE_BITS, at, key=first_of)

    def find(self, key: Page) -> list[Lost] | None:
        source, epoch, page = key
        ranges = self.ledgers.get((source, epoch), NO_RANGES)
        begin = bisect_left(ranges, page << PAGE_BITS, key=first_of)
        end = bisect_left(ranges, (page + 1) << PAGE_BITS, begin, key=first_of)
        return ranges[begin:end] or None

    def put(self, key: Page, row: list[Lost]) -> None:
        """Add a page of a restored state; pages may be added in any order."""
        ranges = self.ledgers.setdefault(key[:2], [])
        at = bisect_left(ranges, key[2] << PAGE_BITS, key=first_of)
        ranges[at:at] = row

    def name_of(self, key: Page) -> str:
        return f"{key[1]:d}/{key[2]}/{key[0]}"

    def key_of(self, name: str) -> Page:
        epoch, page, source = name.split("/", 2)
        return source, int(epoch), int(page)


@mypyc_attr(acyclic=True)
class LostNumbers(Saved):
    """The lost numbers of one source in one epoch.

    Ranges are added in ascending order of number and of time. Lost numbers below `floor` may have
    been forgotten.
    """

    __slots__ = ("_pages", "_ranges", "_source", "epoch", "floor")

    def __init__(self, pages: LostPages, source: str, epoch: int) -> None:
        self._pages = pages
        self._source = source
        self.epoch = epoch
        self.floor = 0
        self._ranges = NO_RANGES

    def record_lost(self, first: int, last: int, known_at_ns: int, now_ns: int) -> None:
        if self._ranges is NO_RANGES:
            self._ranges = self._pages.ledgers[self._source, self.epoch] = []
        self._ranges.append(Lost(first, last, known_at_ns, now_ns))
        self._note(first)
        self._evict(now_ns)

    def take_lost(self, number: int, now_ns: int) -> Lost | None:
        """Remove `number` from its range, and return the former range; None if it was not lost."""
        self._evict(now_ns)
        at = find_range(self._ranges, number)
        if at < 0:
            return None
        found = self._ranges[at]
        for each in (found, *take_number(self._ranges, at, number)):
            self._note(each.first)
        self._evict(now_ns)
        return found

    def find_lost(self, number: int) -> Lost | None:
        """Return the range that contains `number`, or None."""
        at = find_range(self._ranges, number)
        return self._ranges[at] if at >= 0 else None

    def _evict(self, now_ns: int) -> None:
        ranges, pages = self._ranges, self._pages
        n = 0
        while n < len(ranges) and (
            len(ranges) - n > pages.max_ranges or ranges[n].lost_at_ns + pages.memory_ns < now_ns
        ):
            self._note(ranges[n].first)
            n += 1
        if n:
            self.floor = max(self.floor, ranges[n - 1].last + 1)
            del ranges[:n]

    def _note(self, number: int) -> None:
        self._pages.note((self._source, self.epoch, number >> PAGE_BITS))

    def forget_lost(self) -> None:
        """Remove all ranges of this ledger, because it is no longer used."""
        for lost in self._pages.ledgers.pop((self._source, self.epoch), NO_RANGES):
            self._note(lost.first)

    def find_ranges(self) -> None:
        """Find the ranges of this ledger in the restored pages."""
        self._ranges = self._pages.ledgers.get((self._source, self.epoch), NO_RANGES)
