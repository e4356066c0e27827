"""Finds the entry of a table that has been idle longest, at no cost for each event.

The heap's entries are corrected late (`topology.base.lazy_heap`), so an event costs nothing here.
The result depends only on the table, and not on when names were noted. Names are put into the heap
only when an entry may have to be removed, since most tables never reach their bound.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from topology.base.lazy_heap import LazyHeap
from topology.base.operator import NEVER


class LongestIdle(LazyHeap):
    """A queue of a table's entries, in the order in which they became idle.

    The table maps names to objects with `last_arrival_ns` and `busy()`. A busy entry holds events
    and is never returned.
    """

    __slots__ = ("_first_ns", "_names", "_table")

    def __init__(self, table: Mapping[str, Any]) -> None:
        super().__init__()
        self._table = table
        self._names: list[str] = []  # The names that are not in the heap yet.
        self._first_ns = NEVER  # No entry in `_names` had its last input before this.

    def find_key(self, name: str) -> int | None:
        entry = self._table.get(name)
        return None if entry is None else entry.last_arrival_ns

    def note(self, name: str, heard_ns: int) -> None:
        self._names.append(name)
        if heard_ns < self._first_ns:
            self._first_ns = heard_ns

    def pop_longest(self, keep: str, before_ns: int) -> str | None:
        """Return the name of the entry that has been idle longest, except `keep`; remove its note.

        Return None if the last input of every other entry was at or after `before_ns`. Entries with
        equal times are ordered by name.
        """
        if self._first_ns < before_ns:
            for name in self._names:
                if name in self._table:
                    self.push(self._table[name].last_arrival_ns, name)
            self._names.clear()
            self._first_ns = NEVER
        passed_over = []
        found = None
        while found is None and (first := self.first(before_ns)) is not None:
            self.pop()
            if first[1] == keep or self._table[first[1]].busy():
                passed_over.append(first)
            else:
                found = first[1]
        for heard_ns, name in passed_over:
            self.push(heard_ns, name)
        return found
