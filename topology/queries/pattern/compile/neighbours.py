"""Finds the events before and after an event, in the match or not, for PREV and NEXT.

Late events can change the neighbours of an event. So they are looked up when a condition is tested,
and are never stored. `set_events` sets the events to search before each evaluation.

Cost: one bisection for each value. If any time is inexact, one more search decides whether the
value is certain.
"""

from __future__ import annotations

from topology.base.native import mypyc_attr
from topology.queries.pattern.compile.attributes import ABSENT, AbsentEntry
from topology.queries.pattern.store.entry import Entry
from topology.queries.pattern.store.index import EntryIndex


@mypyc_attr(allow_interpreted_subclasses=True)
class Neighbours:
    """A lookup of the neighbours of events, in the query that is being evaluated."""

    __slots__ = ("_everything", "_within_ns")

    def __init__(self) -> None:
        self._everything: EntryIndex | None = None
        self._within_ns = 0

    def set_events(self, everything: EntryIndex | None, within_ns: int) -> None:
        """Set the events to search; events more than `within_ns` apart are not neighbours."""
        self._everything = everything
        self._within_ns = within_ns

    def beside(self, entry: Entry | AbsentEntry, shift: int) -> Entry | AbsentEntry:
        """Return the event `shift` positions after the entry (before, if negative), or ABSENT."""
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
        """Return whether the neighbour is the same event for all possible event times."""
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
        """Return whether all events that may have occurred between two instants have exact times.

        Both instants are included.
        """
        everything = self._everything
        if everything is None or not everything.unsure:
            return True
        return all(
            one.low_ns == one.high_ns for one in everything.find_overlapping(low_ns, high_ns)
        )
