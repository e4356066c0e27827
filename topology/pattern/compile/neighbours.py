"""The events around one, members of the match or not: what PREV and NEXT look at.

What is before an event depends on the others that have come, so it is looked up when a condition is
tested and never kept: `look_at` says among which events, right before each evaluation.

Cost: a bisect for each value; to be sure of it a cut more, where any time is unsure.
"""

from __future__ import annotations

from topology.model.native import mypyc_attr
from topology.pattern.compile.attributes import ABSENT, AbsentEntry
from topology.pattern.store.entry import Entry
from topology.pattern.store.index import EntryIndex


@mypyc_attr(allow_interpreted_subclasses=True)
class Neighbours:
    """Those of the query that is evaluated right now."""

    __slots__ = ("_everything", "_within_ns")

    def __init__(self) -> None:
        self._everything: EntryIndex | None = None
        self._within_ns = 0

    def look_at(self, everything: EntryIndex | None, within_ns: int) -> None:
        """From now on these are the events; what is further apart is no neighbour."""
        self._everything = everything
        self._within_ns = within_ns

    def beside(self, entry: Entry | AbsentEntry, shift: int) -> Entry | AbsentEntry:
        """The event so many places behind it, or before it (negative)."""
        everything = self._everything
        if everything is None or isinstance(entry, AbsentEntry):
            return ABSENT
        at = everything.position(entry.key) + shift
        if not 0 <= at < len(everything):
            return ABSENT
        if abs(entry.time_ns - everything.times[at]) > self._within_ns:
            return ABSENT
        return everything.entries[at]

    def is_sure(self, entry: Entry | AbsentEntry, shift: int) -> bool:
        """Is it that event wherever the true times are?"""
        everything = self._everything
        if everything is None or not everything.unsure or isinstance(entry, AbsentEntry):
            return True
        if entry.low_ns != entry.high_ns:
            return False
        found = self.beside(entry, shift)
        if shift > 0:
            ns = found.high_ns if isinstance(found, Entry) else entry.time_ns + self._within_ns
            return self.are_exact(entry.low_ns, ns)
        ns = found.low_ns if isinstance(found, Entry) else entry.time_ns - self._within_ns
        return self.are_exact(ns, entry.high_ns)

    def are_exact(self, low_ns: int, high_ns: int) -> bool:
        """Are the times of all events exact that may have happened between the two instants?"""
        everything = self._everything
        if everything is None or not everything.unsure:
            return True
        return all(one.low_ns == one.high_ns for one in everything.meeting(low_ns, high_ns))
