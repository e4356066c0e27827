"""Stores the events that may still get a partner, by side and key, in the order of time.

Cost: O(log n) to find an event, plus moving the events after a new one, which is usually near the
end. Events are usually removed at the front. The slots that this leaves free are removed from time
to time, so each removal costs O(1) on average.

A search uses corrected timestamps, and is widened by the largest time error of its key. So it also
finds events out of reach, which the caller leaves out.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Any, Final

from topology.queries.join.entry import JoinEntry, Place

SPARE: Final = 32
"""The maximum number of free slots of a list that is never compacted."""


class KeyEntries:
    """The events of one side and one key, from the index `first` on; earlier slots are free.

    `widest_ns` is the largest time error of all events that were added.
    """

    __slots__ = ("entries", "first", "places", "widest_ns")

    def __init__(self) -> None:
        self.places: list[Place] = []
        self.entries: list[Any] = []
        self.first = 0
        self.widest_ns = 0

    def remove(self, place: Place) -> bool:
        """Remove the entry with that sort key, and return whether no entry is left."""
        at = bisect_left(self.places, place, self.first)
        if at > self.first:
            del self.places[at], self.entries[at]
        else:
            self.entries[at] = None
            self.first += 1
            if 2 * self.first > len(self.places) + SPARE:
                del self.places[: self.first], self.entries[: self.first]
                self.first = 0
        return self.first == len(self.places)


class JoinIndex:
    """An index of entries by side, key and time; `count` is their number."""

    def __init__(self, sides: int) -> None:
        self._sides: list[dict[str, KeyEntries]] = [{} for _ in range(sides)]
        self.count = 0

    def put(self, entry: JoinEntry) -> bool:
        """Add an entry and return True, or return False if the index has its event already."""
        keys = self._sides[entry.side]
        found = keys.get(entry.key)
        if found is None:
            found = keys[entry.key] = KeyEntries()
        place = entry.place
        places = found.places
        at = bisect_left(places, place, found.first)
        if at < len(places) and places[at] == place:
            return False
        places.insert(at, place)
        found.entries.insert(at, entry)
        if entry.error_ns > found.widest_ns:
            found.widest_ns = entry.error_ns
        entry.is_kept = True
        self.count += 1
        return True

    def drop(self, entry: JoinEntry) -> None:
        keys = self._sides[entry.side]
        if keys[entry.key].remove(entry.place):
            del keys[entry.key]
        entry.is_kept = False
        self.count -= 1

    def find_between(self, side: int, key: str, first_ns: int, last_ns: int) -> list[JoinEntry]:
        """Return the entries that may be between the instants, and perhaps others, in order."""
        found = self._sides[side].get(key)
        if found is None:
            return []
        places = found.places
        low = bisect_left(places, (first_ns - found.widest_ns,), found.first)
        high = bisect_left(places, (last_ns + found.widest_ns + 1,), low)
        return found.entries[low:high]

    def iter_back_from(self, side: int, key: str, last_ns: int) -> Iterator[tuple[JoinEntry, int]]:
        """Yield the entries that may be at or before the instant, the last one first.

        Each comes with the largest time error of its key, so that the caller knows when to stop.
        """
        found = self._sides[side].get(key)
        if found is not None:
            end = bisect_left(found.places, (last_ns + found.widest_ns + 1,), found.first)
            for at in range(end - 1, found.first - 1, -1):
                yield found.entries[at], found.widest_ns

    def after(self, entry: JoinEntry) -> Iterator[JoinEntry]:
        """Yield the entries of the same side and key that are after this one in the order."""
        found = self._sides[entry.side].get(entry.key)
        if found is not None:
            begin = bisect_right(found.places, entry.place, found.first)
            for at in range(begin, len(found.places)):
                yield found.entries[at]

    def __iter__(self) -> Iterator[JoinEntry]:
        for keys in self._sides:
            for found in keys.values():
                yield from found.entries[found.first :]
