"""Entries that pass one filter, in the order of their keys, to be cut by time.

An index holds what may be of a component (its types, the conjuncts on it alone), in
one partition; queries and components that ask for the same share one. Times and entries are
two parallel lists, so a cut is a bisect over integers in C.

Cost: an entry newer than all others is appended, O(1); a late one is a bisect and a move of
the references behind it, O(log n) and 16 bytes for each of them. Purging is amortised O(1).

What may have happened between two instants is cut by `meeting`. Entries whose times are not exact
are held a second time, by how large their errors are, so that one error of an hour does not make
every cut an hour wide: each costs 16 bytes more, and a cut two bisects for each size of error, by
powers of two.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Final

from topology.pattern.store.entry import Entry, Key, key_of

BEFORE_ALL_NS: Final = -(1 << 66)
"""Before every instant there is."""

SHRINK_AT: Final = 64
"""So many entries are purged at a time, that moving all others costs little for each."""


class EntryIndex:
    """`times[i]` is the reference time of `entries[i]`. The lists are read, never written,
    from outside; positions hold until the next `add` or `purge`. `unsure`: those that `note_error`
    was given, by the bits of their errors."""

    __slots__ = ("entries", "times", "unsure")

    def __init__(self) -> None:
        self.times: list[int] = []
        self.entries: list[Entry] = []
        self.unsure: dict[int, EntryIndex] = {}

    def __len__(self) -> int:
        return len(self.times)

    def add(self, entry: Entry) -> None:
        """The caller has seen to it that no entry of this key is in it."""
        if not self.times or entry.key > self.entries[-1].key:
            self.append(entry)
            return
        at = self.position(entry.key)
        self.times.insert(at, entry.time_ns)
        self.entries.insert(at, entry)

    def append(self, entry: Entry) -> None:
        """Add an entry that is newer than all others."""
        self.times.append(entry.time_ns)
        self.entries.append(entry)

    def remove(self, entry: Entry) -> None:
        """If it is in the index."""
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
        """It is in the index, and its time is not exact."""
        bits = entry.event.error_ns.bit_length()
        alike = self.unsure.get(bits)
        if alike is None:
            alike = self.unsure[bits] = EntryIndex()
        alike.add(entry)

    def meeting(self, low_ns: int, high_ns: int) -> list[Entry]:
        """Those that may have happened between the two instants, in the order of their keys."""
        found = self.entries[self.before_time(low_ns) : self.up_to_time(high_ns)]
        if not self.unsure:
            return found
        around: list[Entry] = []
        for bits, alike in self.unsure.items():
            most_ns, entries = 1 << bits, alike.entries
            before = entries[alike.before_time(low_ns - most_ns) : alike.before_time(low_ns)]
            around += [entry for entry in before if entry.high_ns >= low_ns]
            behind = entries[alike.up_to_time(high_ns) : alike.up_to_time(high_ns + most_ns)]
            around += [entry for entry in behind if entry.low_ns <= high_ns]
        if around:
            found += around
            found.sort(key=key_of)
        return found

    def position(self, key: Key) -> int:
        """Where the first entry with this key or a larger one is."""
        low = bisect_left(self.times, key[0])
        if low == len(self.times) or self.times[low] != key[0]:
            return low
        high = bisect_right(self.times, key[0], low)  # among the ties of this instant
        return bisect_left(self.entries, key, low, high, key=key_of)

    def find(self, entry: Entry) -> int:
        """Its position; -1 if it is not in the index."""
        at = self.position(entry.key)
        return at if at < len(self.entries) and self.entries[at] is entry else -1

    def behind(self, key: Key) -> int:
        """Position of the first entry with a larger key."""
        at = self.position(key)
        if at < len(self.entries) and self.entries[at].key == key:
            return at + 1
        return at

    def before_time(self, time_ns: int) -> int:
        """How many are earlier than the instant: the position of the first at or after it."""
        return bisect_left(self.times, time_ns)

    def up_to_time(self, time_ns: int) -> int:
        """How many are earlier, or of the very instant."""
        return bisect_right(self.times, time_ns)

    def has_enough(self, before_ns: int) -> bool:
        """So much is earlier than the instant that a purge is worth its cost, or all is."""
        times = self.times
        return (
            not times
            or times[-1] < before_ns
            or (len(times) >= SHRINK_AT and times[SHRINK_AT - 1] < before_ns)
        )

    def purge(self, before_ns: int) -> list[Entry]:
        """Let go of what is earlier than the instant; the entries that left. Worth its cost where
        there is enough (`has_enough`)."""
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
