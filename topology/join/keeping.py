"""How long an event is kept, and which goes first where there is no room.

An event is kept until the final frontiers of all streams have passed the end of whatever it may
belong to. Its own stream is among them: one that still comes on it, and is not expired, lies
behind that end. So none can miss an event that has gone.

Rows with a null ask for their owner's partners as long as they can change; those of more than two
sides for what else belongs to the first. Of a join by interval such an owner may end after its
partner, which is then kept as long.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify, heappop, heappush

from topology.join.config import FULL, INNER, INTERVAL, JoinConfig
from topology.join.entry import Entry
from topology.join.index import Index
from topology.join.relation import Relation
from topology.join.rows import Rows

Aged = tuple[tuple[int, int, str, int, int], int, Entry]


class Keeping:
    """Of the entries in the index. `outlasts`: see above."""

    def __init__(self, config: JoinConfig, relation: Relation, index: Index, rows: Rows) -> None:
        self._most = config.max_events
        self._relation = relation
        self._index = index
        self._rows = rows
        self._is_full = config.outer == FULL
        is_asked = config.outer != INNER or len(config.sides) > 2
        self.outlasts = config.kind == INTERVAL and is_asked
        self._leaving: list[tuple[int, int, Entry]] = []
        self._oldest: list[Aged] | None = None
        """A heap, once the bound was met; some in it may have left."""
        self._pushed = 0

    def keep(self, entry: Entry) -> None:
        """It is in the index."""
        self.bind(entry)
        self._push(entry)
        if self._oldest is not None:
            heappush(self._oldest, (entry.age, self._pushed, entry))

    def bind(self, entry: Entry) -> None:
        """Find out how long it is kept, and keep others longer because of it."""
        entry.until_ns = max(entry.until_ns, self._relation.last_end(entry))
        if not self.outlasts:
            return
        for cell, other in self._rows.bonded(entry):
            for owner, partner in ((entry, other), (other, entry)):
                if owner.side == 0 or self._is_full:
                    partner.until_ns = max(partner.until_ns, self._relation.end(cell, owner))

    def loosen(self, entries: Iterable[Entry]) -> None:
        """A partner of theirs has been given up."""
        if self.outlasts:
            for entry in entries:
                entry.until_ns = 0
                self.bind(entry)
                self._push(entry)

    def _push(self, entry: Entry) -> None:
        self._pushed += 1
        heappush(self._leaving, (entry.until_ns, self._pushed, entry))

    def take_ended(self, gone_ns: int) -> list[Entry]:
        """Those that need not be kept any more."""
        ended = []
        leaving = self._leaving
        while leaving and leaving[0][0] <= gone_ns:
            entry = heappop(leaving)[2]
            if not entry.is_kept:
                continue
            if entry.until_ns <= gone_ns:
                entry.is_kept = False
                ended.append(entry)
            else:
                self._push(entry)
        return ended

    def excess(self) -> Entry | None:
        """The oldest, if there are too many."""
        if self._index.count <= self._most:
            return None
        if self._oldest is None:
            self._oldest = [(entry.age, 0, entry) for entry in self._index]
            heapify(self._oldest)
        while not self._oldest[0][2].is_kept:
            heappop(self._oldest)
        return heappop(self._oldest)[2]
