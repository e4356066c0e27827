"""Finds rows of a match by the navigation functions of SQL.

Examples are the last row of a variable, the n-th row before it, and all rows up to a given one.

A binding has the events of each component by slot, in the order of keys. This module sorts the
events of all slots into one order. Looking back a few rows costs O(slots), however long the match
is. An aggregate costs O(rows), and so do PREV and NEXT unless they start near the end.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence

from topology.queries.pattern.store.entry import Entry, Key, key_of
from topology.queries.pattern.tree.syntax import RowRef

MatchRows = Sequence[Sequence[Entry]]


def compile_finder(
    ref: RowRef, slots: Sequence[int], every: Sequence[int]
) -> Callable[[MatchRows], Entry | None]:
    """Return a function that finds the row of a reference; it returns None without such a row.

    `slots`: the slots of the reference's aliases. `every`: all slots.
    """
    count = ref.offset + 1

    def find(binding: MatchRows) -> Entry | None:
        if len(slots) == 1:
            found = binding[slots[0]]
        elif ref.from_last:
            found = _sort_entries(e for slot in slots for e in binding[slot][-count:])
        else:
            found = _sort_entries(e for slot in slots for e in binding[slot][:count])
        if len(found) < count:
            return None
        return found[-count] if ref.from_last else found[ref.offset]

    if not ref.shift:
        return find

    def move(binding: MatchRows) -> Entry | None:
        entry = find(binding)
        if entry is None:
            return None
        back = 1 - ref.shift
        if back > 0:
            tail = _sort_entries(e for slot in every for e in binding[slot][-back:])
            if tail[-1] is entry:
                return tail[-back] if back <= len(tail) else None
        whole = in_order(binding, every)
        at = whole.index(entry) + ref.shift
        return whole[at] if 0 <= at < len(whole) else None

    return move


def in_order(binding: MatchRows, slots: Iterable[int]) -> list[Entry]:
    return _sort_entries(entry for slot in slots for entry in binding[slot])


def rows_up_to(binding: MatchRows, last: Entry) -> list[Sequence[Entry]]:
    """Return the binding without the rows after `last`."""
    return [_entries_up_to(entries, last.key) for entries in binding]


def _entries_up_to(entries: Sequence[Entry], key: Key) -> Sequence[Entry]:
    if not entries or entries[-1].key <= key:
        return entries
    return entries[: bisect_right(entries, key, key=key_of)]


def _sort_entries(entries: Iterable[Entry]) -> list[Entry]:
    return sorted(entries, key=key_of)
