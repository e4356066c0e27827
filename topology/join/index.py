"""The events that may still get a partner: by side and key, in the order of time.

Cost: O(log n) to find a place and, as lists close up, a move of what lies behind it; events come
and go near the ends. A search is widened by the largest error on its shelf, since it is by
reference time; who asks tells those apart that are found in vain.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

from topology.join.entry import Entry, Place


class Shelf:
    """One side's events of one key. `widest_ns`: the largest error since it was last empty."""

    __slots__ = ("entries", "places", "widest_ns")

    def __init__(self) -> None:
        self.places: list[Place] = []
        self.entries: list[Entry] = []
        self.widest_ns = 0


class Index:
    """`count`: entries."""

    def __init__(self, sides: int) -> None:
        self._sides: list[dict[str, Shelf]] = [{} for _ in range(sides)]
        self.count = 0

    def put(self, entry: Entry) -> bool:
        """False if it is there already."""
        shelves = self._sides[entry.side]
        shelf = shelves.get(entry.key)
        if shelf is None:
            shelf = shelves[entry.key] = Shelf()
        place = entry.place
        places = shelf.places
        at = bisect_left(places, place)
        if at < len(places) and places[at] == place:
            return False
        places.insert(at, place)
        shelf.entries.insert(at, entry)
        if entry.error_ns > shelf.widest_ns:
            shelf.widest_ns = entry.error_ns
        entry.is_kept = True
        self.count += 1
        return True

    def drop(self, entry: Entry) -> None:
        shelves = self._sides[entry.side]
        shelf = shelves[entry.key]
        at = bisect_left(shelf.places, entry.place)
        del shelf.places[at], shelf.entries[at]
        if not shelf.places:
            del shelves[entry.key]
        entry.is_kept = False
        self.count -= 1

    def between(self, side: int, key: str, first_ns: int, last_ns: int) -> list[Entry]:
        """Those that may have been between the two instants, and some others; in order."""
        shelf = self._sides[side].get(key)
        if shelf is None:
            return []
        places = shelf.places
        low = bisect_left(places, (first_ns - shelf.widest_ns,))
        high = bisect_left(places, (last_ns + shelf.widest_ns + 1,), low)
        return shelf.entries[low:high]

    def __iter__(self) -> Iterator[Entry]:
        for shelves in self._sides:
            for shelf in shelves.values():
                yield from shelf.entries
