"""Decides how long a join keeps an event, and which event is removed first if there are too many.

An event is kept until the finality horizons of all streams have passed the end of everything that
it may belong to. Because this includes the event's own stream, further events of that stream are
after that end, or expired. So no event can miss a partner that was released.

Rows with a null require the partners of their owner as long as the rows can change. Rows of more
than two sides require all partners of the first side's event. In a join by interval, the end of
such an owner may be after that of its partner. Then the partner is kept as long as the owner,
unless it might have been released before the owner arrived.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify, heappop, heappush

from topology.base.timers import SPARE, Timers
from topology.queries.join.entry import JoinEntry
from topology.queries.join.index import JoinIndex
from topology.queries.join.relation import Relation, cell_end_of
from topology.queries.join.rows import Owner, Rows
from topology.queries.join.settings import FULL, JoinQuery

Aged = tuple[tuple[int, int, str, int, int], int, JoinEntry]


class Retention:
    """The instants until which the entries in the index are kept."""

    def __init__(self, query: JoinQuery, relation: Relation, index: JoinIndex, rows: Rows) -> None:
        self._most = query.max_events
        self._relation = relation
        self._index = index
        self._rows = rows
        self._is_full = query.outer == FULL
        self._outlasts = query.join.is_by_distance
        self._leaving: Timers[JoinEntry] = Timers()
        self._oldest: list[Aged] | None = None
        """A heap of entries by age, made when the bound is first reached.

        Some of its entries may have left the index.
        """
        self._pushed = 0

    def keep(self, entry: JoinEntry, bonded: Iterable[Owner]) -> None:
        """Decide how long to keep an entry that is now in the index, and arm its timer.

        `bonded` are the events that it may belong to (`rows`).
        """
        self._set_until(entry, bonded)
        self._leaving.arm(entry, entry.until_ns)
        if self._oldest is not None:
            self._pushed += 1
            heappush(self._oldest, (entry.age, self._pushed, entry))
            if len(self._oldest) > 2 * self._most + SPARE:
                self._oldest = None  # Few entries of the heap are still in the index.

    def _set_until(self, entry: JoinEntry, bonded: Iterable[Owner]) -> None:
        """Compute how long the entry is kept; this may also extend how long `bonded` ones are."""
        entry.until_ns = max(entry.until_ns, cell_end_of(self._relation, -1, entry))
        if not self._outlasts:
            return
        for cell, other in bonded:
            for owner, partner in ((entry, other), (other, entry)):
                if owner.side and not self._is_full:
                    continue
                if self._relation.end(cell, partner) > owner.came_ns:
                    partner.until_ns = max(partner.until_ns, self._relation.end(cell, owner))

    def loosen(self, given_up: JoinEntry, bonded: Iterable[Owner]) -> None:
        """Shorten the retention of entries that were kept longer only for an event now given up.

        The event given up is the oldest one, so this is rare.
        """
        if self._outlasts:
            for cell, entry in bonded:
                before_ns = entry.until_ns
                if before_ns > self._relation.end(cell, given_up):
                    continue
                entry.until_ns = 0
                self._set_until(entry, self._rows.find_bonded_owners(entry))
                if entry.until_ns < before_ns:
                    self._leaving.arm(entry, entry.until_ns)

    def take_ended(self, released_ns: int) -> list[JoinEntry]:
        """Return the entries that need not be kept any more."""
        ended = []
        for entry in self._leaving.due(released_ns + 1):
            if entry.until_ns > released_ns:
                self._leaving.arm(entry, entry.until_ns)
            else:
                ended.append(entry)
        return ended

    def forget(self, entry: JoinEntry) -> None:
        """Disarm the timer of an entry that has left the index early."""
        self._leaving.disarm(entry)

    @property
    def is_crowded(self) -> bool:
        """Whether more than seven eighths of `max_events` are kept."""
        return 8 * self._index.count > 7 * self._most

    def pop_excess(self) -> JoinEntry | None:
        """Pop and return the oldest entry if the index is over its bound; otherwise return None."""
        if self._index.count <= self._most:
            return None
        if self._oldest is None:
            self._oldest = [(entry.age, 0, entry) for entry in self._index]
            heapify(self._oldest)
        while not self._oldest[0][2].is_kept:
            heappop(self._oldest)
        return heappop(self._oldest)[2]
