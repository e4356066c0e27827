"""Computes the rows of an as-of join: each event of the first side, with the newest of the second.

The partner is the last event with the same key at or before the first side's event, and at most the
reach before it. Events at one time are in the order of (source, epoch, sequence number). An event
of the first side has one row, or none if it has no partner in an inner join.

A later event may be a newer partner. So every row belongs to its owner
(`topology.queries.join.outer`). It is emitted when the second stream has passed the owner's time,
and corrected until it is final.

With time errors, several events may be the newest. The row shows the one by corrected timestamp. It
is certain if this event is the newest in every possible world. Its probability is a product of
pairs, which serves to rank rows.

At `max_events` the oldest events are given up, and partners may be among them. A row that such an
event might change is never certain (`given_up_ns`).

Cost: O(log n) for an event of the first side. One of the second side costs a step for each event of
the first side up to the next one of the second. More are examined only as far as time errors reach.
"""

from __future__ import annotations

from collections.abc import Iterator

from topology.answer.frontier import FOR_EVER, NOT_YET
from topology.queries.join.entry import JoinEntry
from topology.queries.join.index import JoinIndex
from topology.queries.join.relation import CERTAIN, NO_CELL, ByInterval
from topology.queries.join.rows import JoinRow, Owner, Rows
from topology.queries.join.settings import JoinQuery


class AsOfRows(Rows):
    """The rows of an as-of join.

    Attributes:
        given_up_ns: The latest event time of the second side's events that were given up.
    """

    gains_rows = True

    def __init__(self, query: JoinQuery, relation: ByInterval, index: JoinIndex) -> None:
        super().__init__(query, relation, index)
        self._reach_ns = query.join.size_ns
        self._interval = relation
        self._is_outer = query.is_outer
        self.given_up_ns = NOT_YET

    # -- Bonds -------------------------------------------------------------------------------------

    def find_bonded_owners(self, entry: JoinEntry) -> list[Owner]:
        found = self._owners_of(entry) if entry.side else self._find_candidates(entry)
        return [(NO_CELL, other) for other in found]

    def _are_bonded(self, owner: JoinEntry, other: JoinEntry) -> bool:
        is_possible = self._interval.bond(NO_CELL, owner, other) > 0
        return is_possible and other.event is not owner.event

    def _find_candidates(self, owner: JoinEntry) -> list[JoinEntry]:
        """Return the events that may be the newest for the owner, the last one first."""
        first_ns, last_ns = owner.ref_ns - owner.error_ns, owner.ref_ns + owner.error_ns
        oldest_ns = first_ns - self._reach_ns
        found: list[JoinEntry] = []
        for other, widest_ns in self._index.iter_back_from(1, owner.key, last_ns):
            if other.ref_ns + widest_ns < oldest_ns:
                break
            if self._are_bonded(owner, other):
                found.append(other)
                if other.ref_ns + other.error_ns <= first_ns:
                    # Events that are certainly before this one are not the newest.
                    oldest_ns = max(oldest_ns, other.ref_ns - other.error_ns)
        return found

    def _owners_of(self, entry: JoinEntry) -> list[JoinEntry]:
        """Return the events of the first side whose newest event the entry may be."""
        first_ns, last_ns = self._interval.reach(NO_CELL, entry)
        missing = 2 if self._may_repeat else 1  # An event is no partner of its own.
        until_ns = first_ns
        for later in self._index.after(entry):
            apart_ns = later.ref_ns - later.error_ns - entry.ref_ns - entry.error_ns
            if apart_ns > 0 or (apart_ns == 0 and later.coordinates > entry.coordinates):
                missing -= 1
                until_ns = max(until_ns, later.ref_ns + later.error_ns - 1)
            if not missing:
                # For events at or after the later ones, the entry is not the newest.
                last_ns = min(last_ns, until_ns)
                break
        found = self._index.find_between(0, entry.key, first_ns, last_ns)
        return [
            owner
            for owner in found
            if owner.ref_ns - owner.error_ns <= last_ns and self._are_bonded(owner, entry)
        ]

    def begin_ns(self, owner: Owner) -> int:
        newest = self._find_newest(owner[1], self._find_candidates(owner[1]))
        return super().begin_ns(owner) if newest is None else newest.ref_ns - newest.error_ns

    # -- Rows --------------------------------------------------------------------------------------

    def iter_joined(self, entry: JoinEntry) -> Iterator[JoinRow]:
        """Yield nothing, because a later event may change any row."""
        return iter(())

    def lacking(self, owner: Owner) -> Iterator[JoinRow]:
        """Yield the row of the owner, which may have no null."""
        cell, entry = owner
        candidates = self._find_candidates(entry)
        newest = self._find_newest(entry, candidates)
        if newest is None and not self._is_outer:
            return
        is_certain, odds = self._has_seen_all(entry, newest), 1.0
        if newest is not None:
            is_certain = is_certain and self._interval.bond(cell, entry, newest) == CERTAIN
            odds = self._interval.odds_of_bond(cell, entry, newest)
        for other in candidates:
            if other is not newest:
                newer = self._odds_of_newer(entry, newest, other)
                is_certain = is_certain and not newer
                odds *= 1.0 - newer
        yield JoinRow(cell, (entry, newest), is_certain, odds)

    def _find_newest(self, owner: JoinEntry, candidates: list[JoinEntry]) -> JoinEntry | None:
        """Return the newest event by corrected timestamp, if it is within reach."""
        for other in candidates:
            if other.ref_ns <= owner.ref_ns:
                return other if other.ref_ns >= owner.ref_ns - self._reach_ns else None
        return None

    def _has_seen_all(self, owner: JoinEntry, newest: JoinEntry | None) -> bool:
        """Return whether no event that was given up may be newer than the partner."""
        begin_ns = owner.ref_ns - owner.error_ns - self._reach_ns
        if newest is not None:
            begin_ns = max(begin_ns, newest.ref_ns - newest.error_ns)
        return self.given_up_ns < begin_ns

    def _odds_of_newer(self, owner: JoinEntry, newest: JoinEntry | None, other: JoinEntry) -> float:
        """Return the probability that `other` is a newer partner; it is 0.0 if it cannot be."""
        odds = self._interval.odds_of_bond(NO_CELL, owner, other)
        if newest is None:
            return odds
        # Events at the same time are in the order of their coordinates.
        least_ns = 0 if other.coordinates > newest.coordinates else 1
        return odds * self._interval.odds_within(newest, other, least_ns, FOR_EVER)
