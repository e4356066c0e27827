"""Makes the result rows of one join query, and counts them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from topology.answer.query.numbers import scalar_of
from topology.answer.query.results import NO_NEWS, CurrentResult, ResultEmitter, confidence_of
from topology.base.result import EMIT, UNCERTAIN, JoinResult, Member, Overflow, Partner, result_id
from topology.queries.join.entry import JoinEntry
from topology.queries.join.relation import Relation
from topology.queries.join.rows import JoinRow
from topology.queries.join.settings import JoinQuery

NO_EVENT = b"-"

Shown = tuple[JoinRow, bool]
"""A row, and whether it is certain."""
Current = CurrentResult[Shown]


class RowEmitter(ResultEmitter):
    """An emitter of rows; `overflows` counts the events with too many rows."""

    def __init__(self, query: JoinQuery, relation: Relation) -> None:
        is_keyed = query.key_paths[0] is not None
        super().__init__(query.streams[0], query.name, is_keyed=is_keyed)
        self._aliases = query.aliases
        self._has_cells = not query.join.is_by_distance
        self._fingerprint = query.fingerprint()
        self._relation = relation
        taken = [0] * len(query.streams)
        self._fields: list[tuple[str, int, int]] = []
        """The name of each value, its side, and its index among the values of that side."""
        for name, side, _ in query.fields:
            self._fields.append((name, side, taken[side]))
            taken[side] += 1
        self.overflows = 0

    def id_of(self, row: JoinRow) -> str:
        """Return the id of a row, computed from its content and so the same in every run."""
        members = row.members
        key = next(member.key for member in members if member is not None)
        return result_id(
            self._fingerprint,
            str(row.cell).encode() if self._has_cells else b"",
            key.encode(),
            *[NO_EVENT if member is None else member.name.encode() for member in members],
        )

    def emit(self, row: JoinRow, id_: str) -> None:
        """Emit a row without a null, as final."""
        confidence = confidence_of(is_sure=row.is_certain, is_proven=True)
        self._emit(row, id_, EMIT, 0, confidence, is_final=True)

    def show(
        self, current: Current, content: Shown, id_: str, *, is_final: bool, is_proven: bool
    ) -> None:
        """Emit a row with a null if it is new or has changed.

        `is_proven`: whether events decided the row, not only the end of the input. The end alone
        makes no row certain or final, so it is no reason to emit one once more.
        """
        row, is_sure = content[0], content[1] and is_proven
        is_final = is_final and is_proven
        before, was_sure = current.content
        is_news = is_final or (was_sure, before.odds) != (is_sure, row.odds)
        current.content = row, is_sure
        op = current.show(current.content, is_news=is_news, is_final=is_final)
        if op != NO_NEWS:
            confidence = confidence_of(is_sure=is_sure, is_proven=is_proven)
            self._emit(row, id_, op, current.revision, confidence, is_final=is_final)

    def retract(self, current: Current, id_: str) -> None:
        """Retract a row that is no longer valid and cannot become valid again."""
        op = current.retract()
        row = current.content[0]
        self._emit(row, id_, op, current.revision, UNCERTAIN, is_final=True)

    def overflow(self, entry: JoinEntry, shown: int) -> None:
        self.overflows += 1
        member = Member(self._aliases[entry.side], *entry.coordinates, entry.ref_ns)
        self.results.append(Overflow(self.now_ns, self._stream, self._query, member, shown, "join"))

    def _emit(
        self, row: JoinRow, id_: str, op: str, revision: int, confidence: str, *, is_final: bool
    ) -> None:
        members = row.members
        present = [member for member in members if member is not None]
        start_ns, end_ns = self._relation.span(row.cell, present)
        key = scalar_of(present[0].key) if self._is_keyed else None
        self.add(
            JoinResult(
                self.now_ns,
                self._stream,
                self._query,
                id_,
                op,
                revision,
                is_final,
                confidence,
                start_ns,
                end_ns,
                self._values(members),
                self._make_partners(present),
                key,
                row.odds,
            )
        )

    def _values(self, members: Sequence[JoinEntry | None]) -> dict[str, Any]:
        values = {}
        for name, side, place in self._fields:
            member = members[side]
            values[name] = None if member is None else member.values[place]
        return values

    def _make_partners(self, present: Sequence[JoinEntry]) -> list[Partner]:
        return [
            Partner(self._aliases[each.side], each.event.stream, *each.coordinates, each.ref_ns)
            for each in present
        ]
