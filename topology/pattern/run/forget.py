"""Converts units to rows of the state and back.

The state has a row for each unit with results that are not yet decided. Only the emitted results
are written, because the current matches can be found again from their events. A gathered unit (EMIT
SLACK) is written whole, because events have arrived since its last evaluation. A row whose results
have been decided stays until the unit changes or is forgotten.

With SKIP there is also a row of the barrier after the decided matches (`Run.write`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from topology.model.operator import Plain
from topology.model.saved import (
    FLAG,
    INT,
    PLAIN,
    TEXT,
    ValueKind,
    Written,
    list_of,
    optional,
    tuple_of,
)
from topology.pattern.match.match import Match
from topology.pattern.run.unit import FoundMatch, MatchUnit
from topology.pattern.store.entry import Entry, Identity
from topology.query.results import CurrentResult

FOUND_ROW: Final = tuple_of(INT, TEXT, INT, list_of(list_of(tuple_of(TEXT, INT, INT))))


class FoundKind(ValueKind):
    """The value kind of a match, which is saved with its entries' identities.

    `load` expects a mapping from identities to entries as `owner`.
    """

    def dump(self, value: FoundMatch) -> Plain:
        bound = [[entry.identity for entry in entries] for entries in value.match.bound]
        return value.decided_ns, value.confidence, value.match.alternative, bound

    def load(self, plain: Plain, written: Written | None, owner: Any, field: str) -> FoundMatch:
        decided_ns, confidence, alternative, bound = FOUND_ROW.load(plain, None, None, field)
        parts = tuple(tuple(owner[identity] for identity in part) for part in bound)
        return FoundMatch(Match(alternative, parts), decided_ns, confidence)


FOUND: Final = FoundKind(f"match {FOUND_ROW.name}", is_plain=False)
EMITTED: Final = list_of(tuple_of(TEXT, INT, FLAG, FLAG, INT))
"""A unit's results, each as its id, revision, whether it is live and final, and `decided_ns`."""

WAITING: Final = tuple_of(
    INT,
    optional(list_of(tuple_of(INT, INT), frozenset)),
    list_of(tuple_of(TEXT, FOUND)),
    list_of(tuple_of(TEXT, INT, FLAG, FLAG, FOUND)),
)
"""A whole unit that waits to be corrected, with the matches of its last evaluation.

It has `hi_ns` and `waits`, the found matches by id, and the emitted results as in EMITTED.
"""

UNIT: Final = tuple_of(optional(INT), PLAIN)
"""The row of a unit.

If the unit waits to be corrected: the time until which it waits, and WAITING, or None if the unit
was never evaluated. Otherwise: None and EMITTED.
"""

NOTHING: Final = (None, ())
"""The value used for a unit without a row."""

BARRIER: Final = tuple_of(INT, TEXT, INT, INT, FLAG)


def row_of(unit: MatchUnit | None, due_ns: int | None, frontier_ns: int) -> Plain:
    """Return the row of a unit, or None if there is nothing to write.

    `due_ns`: the time until which the unit waits to be corrected; None if it does not wait.
    """
    if unit is None:
        return None if due_ns is None else (due_ns, None)
    open_ = [old for old in unit.emitted.items() if old[1].content.decided_ns >= frontier_ns]
    if due_ns is None:
        rows = [(i, old.revision, old.live, old.final, old.content.decided_ns) for i, old in open_]
        return (None, rows) if rows else None
    found = [
        (id_, FOUND.dump(each))
        for id_, each in unit.found.items()
        if each.decided_ns >= frontier_ns
    ]
    emitted = [(i, old.revision, old.live, old.final, FOUND.dump(old.content)) for i, old in open_]
    waits = None if unit.waits is None else sorted(unit.waits)
    return due_ns, (unit.hi_ns, waits, found, emitted)


def restore_emitted(
    unit: MatchUnit, shown: Mapping[str, FoundMatch], row: Plain, frontier_ns: int
) -> None:
    """Restore the emitted results of a unit from its row. `shown`: its current results by id."""
    for id_, revision, live, final, decided_ns in EMITTED.load(row, None, None, ""):
        # Results that were decided after the row was written are skipped.
        if decided_ns >= frontier_ns:
            found = shown.get(id_)
            if found is None:  # A retracted result needs only its revision.
                found = FoundMatch(Match(0, ((unit.anchor,),)), decided_ns)
            unit.emitted[id_] = CurrentResult(found, revision, live=live, final=final)


def restore_waiting(unit: MatchUnit, row: Plain, entries: Mapping[Identity, Entry]) -> Any:
    """Restore a unit that waits to be corrected, and return the slots that it waits for."""
    unit.hi_ns, waits, found, emitted = WAITING.load(row, None, entries, "")
    unit.found = dict(found)
    for id_, revision, live, final, content in emitted:
        unit.emitted[id_] = CurrentResult(content, revision, live=live, final=final)
    return waits
