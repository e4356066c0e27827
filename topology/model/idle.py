"""Finds the entry of a table that has been idle longest, at no cost for each event.

A heap has one note for each entry: its name, and a time at or before the last input of the entry. A
note that is out of date is corrected only when it reaches the top of the heap. So an event costs
nothing here, and finding the longest idle entry costs O(log n) amortized. The result depends only
on the entries, and not on when their notes were added. Notes are put into the heap only when an
entry may have to be removed, since most tables never reach their bound.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Any

from topology.model.operator import NEVER


class LongestIdle:
    """A queue of a table's entries, in the order in which they became idle.

    The table maps names to objects with `last_arrival_ns` and `busy()`. A busy entry holds events
    and is never returned.
    """

    __slots__ = ("_first_ns", "_names", "_notes")

    def __init__(self) -> None:
        self._notes: list[tuple[int, str]] = []
        self._names: list[str] = []  # The names that are not in the heap yet.
        self._first_ns = NEVER  # No entry in `_names` had its last input before this.

    def note(self, name: str, heard_ns: int) -> None:
        self._names.append(name)
        if heard_ns < self._first_ns:
            self._first_ns = heard_ns

    def pop_longest(self, table: dict[str, Any], keep: str, before_ns: int) -> str | None:
        """Return the name of the entry that has been idle longest, except `keep`; remove its note.

        Return None if the last input of every other entry was at or after `before_ns`. Entries with
        equal times are ordered by name.
        """
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
