"""What readers are shown of a match that is visible, where that is more than its events say.

Columns may look beyond the match (PREV and NEXT), so their values may change while the match stays;
and with ALL ROWS PER MATCH each event of the match is a result of its own, by an id that begins
with the match's. Both are made when a unit is emitted, and the ledger compares them as contents.

What is decided is as it was emitted: what lay beside it may be forgotten by now. Where a time that
the columns look at is unsure, the values are uncertain.

Cost: the values of the visible matches of a unit whenever something of it changes; for ALL ROWS
O(rows²) where a column looks at all rows up to its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from topology.model.result import UNCERTAIN, result_id
from topology.pattern.match.anchors import spelled
from topology.pattern.match.match import Match
from topology.pattern.run.ledger import FoundMatch, MatchUnit
from topology.pattern.run.queries import PartitionQuery

ROW_DIGITS = 16
"""Digits of a row's id that follow those of its match."""


class ShownResults:
    """Those of a query in one partition."""

    __slots__ = ("_at",)

    def __init__(self, at: PartitionQuery) -> None:
        self._at = at

    def of(self, unit: MatchUnit, visible: Mapping[str, FoundMatch]) -> dict[str, FoundMatch]:
        """By the ids of results."""
        query, place = self._at.query, self._at.place
        query.environment.neighbours.look_at(place.everything, query.within_ns)
        shown: dict[str, FoundMatch] = {}
        for id_, found in visible.items():
            emitted = dict(_emitted(unit, id_)) if self._is_decided(found) else {}
            shown |= emitted or dict(self._made(id_, found))
        return shown

    def _is_decided(self, found: FoundMatch) -> bool:
        return found.decided_ns < self._at.now.frontier_ns

    def _made(self, id_: str, found: FoundMatch) -> Iterator[tuple[str, FoundMatch]]:
        query, match, confidence = self._at.query, found.match, found.confidence
        if query.reads_beyond and not self._is_exact_around(match):
            confidence = UNCERTAIN
        if not query.query.all_rows:
            values = query.values(match)
            yield id_, FoundMatch(match, found.decided_ns, confidence, found.graded_ns, values)
            return
        for j, entry, values in query.rows(match):
            row_id = id_ + result_id(spelled(entry))[:ROW_DIGITS]
            row = FoundMatch(match, found.decided_ns, confidence, found.graded_ns, values)
            row.row = (j, entry)
            yield row_id, row

    def _is_exact_around(self, match: Match) -> bool:
        within_ns = self._at.query.within_ns
        low_ns, high_ns = match.first.low_ns - within_ns, match.last.high_ns + within_ns
        return self._at.query.environment.neighbours.are_exact(low_ns, high_ns)


def _emitted(unit: MatchUnit, id_: str) -> Iterator[tuple[str, FoundMatch]]:
    """What readers have of the match."""
    for known, current in unit.emitted.items():
        if current.live and known.startswith(id_):
            yield known, current.content
