"""Which entry of a table has been idle longest, without touching it per event.

A heap with one note per entry, (last heard or earlier, name). A note that is out of
date is put right only when it comes up, so an event of an entry costs nothing here
and finding the longest idle one is O(log n) amortised. The answer depends on the
entries alone, not on when the notes were made. Before an entry may be given up its note is the
name alone: most tables never reach their bound.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Any

from topology.model.operator import NEVER


class LongestIdle:
    """`table` maps names to objects with `last_arrival_ns` and `busy()`; a busy entry
    (it holds events) is never given up."""

    __slots__ = ("_first_ns", "_names", "_notes")

    def __init__(self) -> None:
        self._notes: list[tuple[int, str]] = []
        self._names: list[str] = []  # not in the heap yet
        self._first_ns = NEVER  # none of them was heard before

    def note(self, name: str, heard_ns: int) -> None:
        self._names.append(name)
        if heard_ns < self._first_ns:
            self._first_ns = heard_ns

    def longest(self, table: dict[str, Any], keep: str, before_ns: int) -> str | None:
        """The longest idle entry but `keep`, if it was last heard before `before_ns`;
        its note is taken away. Ties go by name."""
        notes = self._notes
        if self._first_ns < before_ns:
            for name in self._names:
                if name in table:
                    heappush(notes, (table[name].last_arrival_ns, name))
            self._names.clear()
            self._first_ns = NEVER
        passed_over: list[tuple[int, str]] = []
        found = None
        while notes and notes[0][0] < before_ns:
            heard_ns, name = heappop(notes)
            entry = table.get(name)
            if entry is None:
                continue
            if entry.last_arrival_ns > heard_ns:
                heappush(notes, (entry.last_arrival_ns, name))
            elif name == keep or entry.busy():
                passed_over.append((heard_ns, name))
            else:
                found = name
                break
        for note in passed_over:
            heappush(notes, note)
        return found
