"""Defines a match as a run finds it, and keeps the units with a certain match by time.

`SureUnits` stores the units with a certain match by the time range of their members. It has one
list for each magnitude of a range's length, by powers of two. So one long range does not widen
every look-up. Storing a unit costs O(log n) and a move of references. A look-up costs two
bisections for each magnitude, and looks at no more than twice the units that it finds.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping
from typing import Any

from topology.base.result import CONFIRMED
from topology.queries.pattern.match.match import Match
from topology.queries.pattern.store.entry import Entry, Key


class FoundMatch:
    """A current match, or one of its rows, with its confidence.

    Attributes:
        match: The match.
        decided_ns: The time after which no event can change it.
        confidence: CONFIRMED or UNCERTAIN.
        graded_ns: The largest known error when the match was graded; 0 if it was not graded.
        values: The values of its columns, if they do not follow from its events (`run.emit`).
        row: The alias and the event of this row; None for a whole match.
    """

    __slots__ = ("confidence", "decided_ns", "graded_ns", "match", "row", "values")

    def __init__(
        self,
        match: Match,
        decided_ns: int,
        confidence: str = CONFIRMED,
        graded_ns: int = 0,
        values: Mapping[str, Any] | None = None,
    ) -> None:
        self.match = match
        self.decided_ns = decided_ns
        self.confidence = confidence
        self.graded_ns = graded_ns
        self.values = values
        self.row: tuple[str, Entry] | None = None


TimeRange = tuple[int, int, Key]
"""The first and last possible instant of a unit's certain matches, and its anchor's key."""


class SureUnits:
    """The units of one run with a certain match, by the time range of their members.

    A unit is given by the key of its anchor.
    """

    __slots__ = ("_by_length", "_ranges")

    def __init__(self) -> None:
        self._ranges: dict[Key, TimeRange] = {}
        self._by_length: dict[int, list[TimeRange]] = {}

    def note(self, key: Key, matches: Iterable[FoundMatch]) -> None:
        """Update a unit's time range after its matches or their certainty may have changed."""
        known, range_ = self._ranges.get(key), _range_of(key, matches)
        if range_ == known:
            return
        if known is not None:
            self.drop(key)
        if range_ is not None:
            self._ranges[key] = range_
            insort(self._by_length.setdefault(_bit_length_of(range_), []), range_)

    def drop(self, key: Key) -> None:
        """Remove the unit whose anchor has this key, if it is here."""
        range_ = self._ranges.pop(key, None)
        if range_ is None:
            return
        bits = _bit_length_of(range_)
        alike = self._by_length[bits]
        del alike[bisect_left(alike, range_)]
        if not alike:
            del self._by_length[bits]

    def find_around(self, entry: Entry, within_ns: int) -> list[Key]:
        """Return the units whose time range comes within `within_ns` of the entry's own."""
        low_ns, high_ns = entry.low_ns - within_ns, entry.high_ns + within_ns
        found: list[Key] = []
        for bits, alike in self._by_length.items():
            at = bisect_left(alike, (low_ns - (1 << bits), low_ns, ()))
            end = bisect_left(alike, (high_ns + 1, high_ns, ()), at)
            found += [key for _, until_ns, key in alike[at:end] if until_ns >= low_ns]
        return found


def _range_of(key: Key, matches: Iterable[FoundMatch]) -> TimeRange | None:
    """Return the time range of the certain matches, or None if there is none."""
    sure = [found.match.bound for found in matches if found.confidence == CONFIRMED]
    members = [entry for bound in sure for entries in bound for entry in entries]
    if not members:
        return None
    return min([each.low_ns for each in members]), max([each.high_ns for each in members]), key


def _bit_length_of(range_: TimeRange) -> int:
    return (range_[1] - range_[0]).bit_length()
