"""The events around one, members of the match or not: what PREV looks at.

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

    def before(self, entry: Entry | AbsentEntry, back: int) -> Entry | AbsentEntry:
        """The event so many places before."""
        everything = self._everything
        if everything is None or isinstance(entry, AbsentEntry):
            return ABSENT
        at = everything.position(entry.key) - back
        if at < 0 or entry.time_ns - everything.times[at] > self._within_ns:
            return ABSENT
        return everything.entries[at]

    def is_sure(self, entry: Entry | AbsentEntry, back: int) -> bool:
        """Is it the event so many places before wherever the true times are?"""
        everything = self._everything
        if everything is None or not everything.unsure or isinstance(entry, AbsentEntry):
            return True
        found = self.before(entry, back)
        since_ns = found.low_ns if isinstance(found, Entry) else entry.time_ns - self._within_ns
        around = everything.meeting(since_ns, entry.high_ns)
        return all(one.low_ns == one.high_ns for one in (entry, *around))
