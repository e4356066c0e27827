"""How long an event is kept, and which goes first where there is no room.

An event is kept until the final frontiers of all streams have passed the end of whatever it may
belong to. Its own stream is among them: one that still comes on it, and is not expired, lies
behind that end. So none can miss an event that was released.

Rows with a null ask for their owner's partners as long as they can change; those of more than two
sides for what else belongs to the first. In a join by interval such an owner may end after its
partner, which is then kept as long; not if the partner might be released before the owner came.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify, heappop, heappush

from topology.join.entry import JoinEntry
from topology.join.index import JoinIndex
from topology.join.relation import Relation, end_in
from topology.join.rows import Owner, Rows
from topology.join.settings import FULL, INTERVAL, JoinSettings
from topology.model.timers import SPARE, Timers

Aged = tuple[tuple[int, int, str, int, int], int, JoinEntry]


class Retention:
    """How long the entries in the index are kept. `outlasts`: see above."""

    def __init__(
        self, query: JoinSettings, relation: Relation, index: JoinIndex, rows: Rows
    ) -> None:
        self._most = query.max_events
        self._relation = relation
        self._index = index
        self._rows = rows
        self._is_full = query.outer == FULL
        self._outlasts = query.condition.kind == INTERVAL
        self._leaving: Timers[JoinEntry] = Timers()
        self._oldest: list[Aged] | None = None
        """A heap, once the bound was met; some in it may have left."""
        self._pushed = 0

    def keep(self, entry: JoinEntry, bonded: Iterable[Owner]) -> None:
        """It is in the index; `bonded` are the events that it may belong to (`rows`)."""
        self._bind(entry, bonded)
        self._leaving.arm(entry, entry.until_ns)
        if self._oldest is not None:
            self._pushed += 1
            heappush(self._oldest, (entry.age, self._pushed, entry))
            if len(self._oldest) > 2 * self._most + SPARE:
                self._oldest = None  # few of these are still there

    def _bind(self, entry: JoinEntry, bonded: Iterable[Owner]) -> None:
        """Find out how long it is kept, and keep others longer because of it."""
        entry.until_ns = max(entry.until_ns, end_in(self._relation, -1, entry))
        if not self._outlasts:
            return
        for cell, other in bonded:
            for owner, partner in ((entry, other), (other, entry)):
                if owner.side and not self._is_full:
                    continue
                if self._relation.end(cell, partner) > owner.came_ns:
                    partner.until_ns = max(partner.until_ns, self._relation.end(cell, owner))

    def loosen(self, given_up: JoinEntry, bonded: Iterable[Owner]) -> None:
        """An event that they might belong to has been given up. It is the oldest, so seldom the
        one that keeps another longest."""
        if self._outlasts:
            for cell, entry in bonded:
                before_ns = entry.until_ns
                if before_ns > self._relation.end(cell, given_up):
                    continue
                entry.until_ns = 0
                self._bind(entry, self._rows.bonded(entry))
                if entry.until_ns < before_ns:
                    self._leaving.arm(entry, entry.until_ns)

    def take_ended(self, released_ns: int) -> list[JoinEntry]:
        """Those that need not be kept any more."""
        ended = []
        for entry in self._leaving.due(released_ns + 1):
            if entry.until_ns > released_ns:
                self._leaving.arm(entry, entry.until_ns)
            else:
                ended.append(entry)
        return ended

    def forget(self, entry: JoinEntry) -> None:
        """It has left the index before its time."""
        self._leaving.disarm(entry)

    @property
    def is_crowded(self) -> bool:
        """An eighth of the room for events is left, at most."""
        return 8 * self._index.count > 7 * self._most

    def excess(self) -> JoinEntry | None:
        """The oldest, if there are too many."""
        if self._index.count <= self._most:
            return None
        if self._oldest is None:
            self._oldest = [(entry.age, 0, entry) for entry in self._index]
            heapify(self._oldest)
        while not self._oldest[0][2].is_kept:
            heappop(self._oldest)
        return heappop(self._oldest)[2]
