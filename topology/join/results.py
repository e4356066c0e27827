"""Rows of one query, as values; and how many there were.

Proved by: tests/topology/join/test_examples.py, tests/topology/join/test_oracle.py
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from topology.join.config import INTERVAL, JoinConfig
from topology.join.entry import Entry
from topology.join.relation import Relation
from topology.join.rows import Row
from topology.model.result import (
    CONFIRMED,
    EMIT,
    RETRACT,
    UNCERTAIN,
    UPDATE,
    Finding,
    JoinResult,
    Member,
    Overflow,
    Partner,
    result_id,
)
from topology.query.numbers import scalar_of

NO_EVENT = b"-"


class Teller:
    """`results` waits for whoever takes it. `now_ns`: the instant that is told of. The counts only
    grow."""

    def __init__(self, config: JoinConfig, relation: Relation) -> None:
        self._query = config.query
        self._stream = config.sides[0].stream
        self._sides = config.sides
        self._is_keyed = config.sides[0].key is not None
        self._has_cells = config.kind != INTERVAL
        self._fingerprint = config.fingerprint
        self._relation = relation
        taken = [0] * len(config.sides)
        self._fields: list[tuple[str, int, int]] = []
        """Name, side, and place among the values of its events."""
        for field in config.fields:
            self._fields.append((field.name, field.side, taken[field.side]))
            taken[field.side] += 1
        self.results: list[Finding] = []
        self.now_ns = 0
        self.emitted = 0
        self.updated = 0
        self.retracted = 0
        self.overflows = 0

    def id_of(self, row: Row) -> str:
        """Made of what the row is made of alone, so the same in every run."""
        members = row.members
        key = next(member.key for member in members if member is not None)
        return result_id(
            self._fingerprint,
            str(row.cell).encode() if self._has_cells else b"",
            key.encode(),
            *[NO_EVENT if member is None else member.name.encode() for member in members],
        )

    def emit(self, row: Row, id_: str, *, is_final: bool, is_sure: bool) -> None:
        self.emitted += 1
        self._tell(row, id_, EMIT, 0, is_final=is_final, is_sure=is_sure)

    def update(self, row: Row, id_: str, revision: int, *, is_final: bool, is_sure: bool) -> None:
        self.updated += 1
        self._tell(row, id_, UPDATE, revision, is_final=is_final, is_sure=is_sure)

    def retract(self, row: Row, id_: str, revision: int) -> None:
        """It does not hold any more, and will not again."""
        self.retracted += 1
        self._tell(row, id_, RETRACT, revision, is_final=True, is_sure=False)

    def overflow(self, entry: Entry, shown: int) -> None:
        self.overflows += 1
        event = entry.event
        alias = self._sides[entry.side].alias
        member = Member(alias, event.source, event.epoch, event.seq, event.ref_time_ns)
        self.results.append(Overflow(self.now_ns, self._stream, self._query, member, shown))

    def _tell(
        self, row: Row, id_: str, op: str, revision: int, *, is_final: bool, is_sure: bool
    ) -> None:
        members = row.members
        present = [member for member in members if member is not None]
        start_ns, end_ns = self._relation.span(row.cell, present)
        key = scalar_of(present[0].key) if self._is_keyed else None
        self.results.append(
            JoinResult(
                self.now_ns,
                self._stream,
                self._query,
                id_,
                op,
                revision,
                is_final,
                CONFIRMED if is_sure else UNCERTAIN,
                start_ns,
                end_ns,
                self._values(members),
                self._partners(present),
                key,
                row.odds,
            )
        )

    def _values(self, members: Sequence[Entry | None]) -> dict[str, Any]:
        values = {}
        for name, side, place in self._fields:
            member = members[side]
            values[name] = None if member is None else member.values[place]
        return values

    def _partners(self, present: Sequence[Entry]) -> list[Partner]:
        partners = []
        for member in present:
            event, alias = member.event, self._sides[member.side].alias
            partners.append(
                Partner(alias, event.stream, event.source, event.epoch, event.seq, member.ref_ns)
            )
        return partners
