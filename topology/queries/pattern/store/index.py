"""Stores the entries that pass one filter in the order of their keys, for range queries by time.

An index contains the entries of one partition that may belong to a component or a negation. They
have one of its types and meet the conditions on one event alone. Queries and components with the
same filter share one index. Times and entries are two parallel lists, so a range query is a
bisection over integers in C.

Cost: appending an entry newer than all others is O(1). Inserting an older one takes a bisection,
O(log n), and moves the references after it, 16 bytes each. Purging is amortised O(1).

`find_overlapping` returns the entries that may have happened between two instants. For this,
entries with inexact times are also stored in one more index for each magnitude of error, by powers
of two. So a single error of an hour does not widen every range query by an hour. Such an entry
takes 16 bytes more, and a range query takes two more bisections for each magnitude.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Final

from topology.queries.pattern.store.entry import Entry, Key, key_of

BEFORE_ALL_NS: Final = -(1 << 66)
"""An instant before all event times."""

SHRINK_AT: Final = 64
"""The minimum number of old entries at which a purge is worth moving the others."""


class EntryIndex:
    """The entries that pass one filter, ordered by key, with their times.

    Other modules read `times` and `entries` but never modify them. Positions are valid until the
    index is next changed.

    Attributes:
        times: The corrected timestamps of `entries`, in the same order.
        entries: The entries, ordered by key.
        unsure: The entries passed to `note_error`, one index for each bit length of their errors.
    """

    __slots__ = ("entries", "times", "unsure")

    def __init__(self) -> None:
        self.times: list[int] = []
        self.entries: list[Entry] = []
        self.unsure: dict[int, EntryIndex] = {}

    def __len__(self) -> int:
        return len(self.times)

    def add(self, entry: Entry) -> None:
        """Add an entry; the caller ensures that its key is not in the index yet."""
        if not self.times or entry.key > self.entries[-1].key:
            self.append(entry)
            return
        at = self.position(entry.key)
        self.times.insert(at, entry.time_ns)
        self.entries.insert(at, entry)

    def append(self, entry: Entry) -> None:
        """Add an entry whose key is larger than all others."""
        self.times.append(entry.time_ns)
        self.entries.append(entry)

    def remove(self, entry: Entry) -> None:
        """Remove an entry, if it is in the index."""
        at = self.find(entry)
        if at < 0:
            return
        del self.times[at], self.entries[at]
        bits = entry.event.error_ns.bit_length()
        if bits in self.unsure:
            self.unsure[bits].remove(entry)
            if not self.unsure[bits]:
                del self.unsure[bits]

    def note_error(self, entry: Entry) -> None:
        """Record that the time of an entry in the index is not exact."""
        bits = entry.event.error_ns.bit_length()
        alike = self.unsure.get(bits)
        if alike is None:
            alike = self.unsure[bits] = EntryIndex()
        alike.add(entry)

    def find_overlapping(self, low_ns: int, high_ns: int) -> list[Entry]:
        """Return the entries that may have happened between two instants (inclusive), by key."""
        found = self.entries[self.count_before(low_ns) : self.count_up_to(high_ns)]
        if not self.unsure:
            return found
        around: list[Entry] = []
        for bits, alike in self.unsure.items():
            most_ns, entries = 1 << bits, alike.entries
            before = entries[alike.count_before(low_ns - most_ns) : alike.count_before(low_ns)]
            around += [entry for entry in before if entry.high_ns >= low_ns]
            behind = entries[alike.count_up_to(high_ns) : alike.count_up_to(high_ns + most_ns)]
            around += [entry for entry in behind if entry.low_ns <= high_ns]
        if around:
            found += around
            found.sort(key=key_of)
        return found

    def position(self, key: Key) -> int:
        """Return the position of the first entry whose key is at least `key`."""
        low = bisect_left(self.times, key[0])
        if low == len(self.times) or self.times[low] != key[0]:
            return low
        # Bisect by key among the entries of this instant.
        high = bisect_right(self.times, key[0], low)
        return bisect_left(self.entries, key, low, high, key=key_of)

    def find(self, entry: Entry) -> int:
        """Return the entry's position, or -1 if it is not in the index."""
        at = self.position(entry.key)
        return at if at < len(self.entries) and self.entries[at] is entry else -1

    def behind(self, key: Key) -> int:
        """Return the position of the first entry whose key is larger than `key`."""
        at = self.position(key)
        if at < len(self.entries) and self.entries[at].key == key:
            return at + 1
        return at

    def count_before(self, time_ns: int) -> int:
        """Return the number of entries before the instant."""
        return bisect_left(self.times, time_ns)

    def count_up_to(self, time_ns: int) -> int:
        """Return the number of entries at or before the instant."""
        return bisect_right(self.times, time_ns)

    def is_purge_due(self, before_ns: int) -> bool:
        """Return whether a purge pays: enough entries, or all, are before the instant."""
        times = self.times
        return (
            not times
            or times[-1] < before_ns
            or (len(times) >= SHRINK_AT and times[SHRINK_AT - 1] < before_ns)
        )

    def purge(self, before_ns: int) -> list[Entry]:
        """Remove and return the entries before the instant.

        A purge is worth its cost only if `is_purge_due` returns True.
        """
        count = bisect_left(self.times, before_ns)
        removed = self.entries[:count]
        del self.times[:count]
        del self.entries[:count]
        if self.unsure:
            for bits, alike in list(self.unsure.items()):
                alike.purge(before_ns)
                if not alike.times:
                    del self.unsure[bits]
        return removed
