"""Converts units to rows of the state and back.

The state has a row for each unit with results that are not yet decided. Only the emitted results
are written, because the current matches can be found again from their events. A row whose results
have been decided stays until the unit changes or is forgotten.

With SKIP there is also a row of the barrier after the decided matches (`Run.write`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from topology.model.operator import Plain
from topology.model.saved import (
    FLAG,
    INT,
    TEXT,
    list_of,
    tuple_of,
)
from topology.pattern.match.match import Match
from topology.pattern.run.unit import FoundMatch, MatchUnit
from topology.query.results import CurrentResult

EMITTED: Final = list_of(tuple_of(TEXT, INT, FLAG, FLAG, INT))
"""The row of a unit: each result's id, revision, whether it is live and final, and `decided_ns`."""

BARRIER: Final = tuple_of(INT, TEXT, INT, INT, FLAG)


def row_of(unit: MatchUnit | None, frontier_ns: int) -> Plain:
    """Return the row of a unit, or None if there is nothing to write."""
    if unit is None:
        return None
    rows = [
        (id_, old.revision, old.live, old.final, old.content.decided_ns)
        for id_, old in unit.emitted.items()
        if old.content.decided_ns >= frontier_ns
    ]
    return rows or None


def restore_emitted(
    unit: MatchUnit, shown: Mapping[str, FoundMatch], row: Plain, frontier_ns: int
) -> None:
    """Restore the emitted results of a unit from its row. `shown`: its current results by id."""
    for id_, revision, live, final, decided_ns in row:
        # Results that were decided after the row was written are skipped.
        if decided_ns >= frontier_ns:
            found = shown.get(id_)
            if found is None:  # A retracted result needs only its revision.
                found = FoundMatch(Match(0, ((unit.anchor,),)), decided_ns)
            unit.emitted[id_] = CurrentResult(found, revision, live=live, final=final)
