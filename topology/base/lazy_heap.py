"""Finds the smallest of several keys that change, without a move of an entry for each change.

The heap has entries of a key and a name. The key of a name may rise, or the name may leave,
without a call here. Such an entry is *stale*, and is corrected when it reaches the top. If the key
of a name falls, the name is pushed again. Its older entries are removed at the top. The heap is
rebuilt when it has twice as many entries as after the last time, and `SPARE` more.

Cost: O(log names) amortized for each push and for each key that has changed. Nothing here is saved
as state.

`topology.base.timers` returns each key once, at its instant, and keeps a table of the keys. These
heaps of the core are neither:

* The heads of ALIGNMENT and the buffer of `reorder.time_buffer` have no stale entries.
* The heads of MERGE and its keyed sources (`merge.bounds`) are corrected in loops that may run for
  every event.
* The heap of `join.retention` may have several entries of one age, and tells them apart by serial
  numbers.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify, heappop, heappush, heapreplace
from typing import Final

from topology.base.operator import NEVER

SPARE: Final = 1_000
"""The size of the heap up to which stale entries are not removed."""

Entry = tuple[int, str]
"""A key and a name. Entries with equal keys are in the order of their names."""


class LazyHeap:
    """Names by their smallest key; a subclass finds the key of a name.

    Attributes:
        entries: The heap. The key of each name in it is at or above its smallest entry.
    """

    __slots__ = ("_most", "entries")

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self._most = SPARE

    def find_key(self, name: str) -> int | None:
        """Return the key that the name has now, or None if its entries must be removed."""
        raise NotImplementedError

    def push(self, key: int, name: str) -> None:
        """Add an entry for a name that is new or whose key has fallen.

        The name may get this key only after the call.
        """
        if len(self.entries) >= self._most:
            self.rebuild(dict.fromkeys([name for _, name in self.entries]))
        heappush(self.entries, (key, name))

    def pop(self) -> None:
        """Remove the first entry."""
        heappop(self.entries)

    def first(self, before: int = NEVER) -> Entry | None:
        """Return the smallest key with its name; None if there is no key below `before`."""
        entries = self.entries
        corrected = None
        while entries and entries[0][0] < before:
            entry = entries[0]
            name = entry[1]
            key = self.find_key(name)
            if key == entry[0]:
                return entry
            if key is None or name == corrected:  # It has another entry, with the right key.
                heappop(entries)
            else:
                heapreplace(entries, (key, name))
                corrected = name
        return None

    def rebuild(self, names: Iterable[str]) -> None:
        """Replace all entries by one for each of these names that has a key."""
        keys = [(self.find_key(name), name) for name in names]
        self.entries = [(key, name) for key, name in keys if key is not None]
        heapify(self.entries)
        self._most = 2 * len(self.entries) + SPARE
