"""A unit as the state table has it: revisions, and of one that waits to be looked at all of it.

What is current in a unit can be found again from the events it rests on, so only what was emitted
of it is written. Not so where late events are gathered (EMIT SLACK): its events are there
already, and it has not been looked at since.

Proved by: tests/topology/pattern/test_engine_laws.py, tests/topology/pattern/test_late_errors.py
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from topology.pattern.match.match import Match
from topology.pattern.run.ledger import CurrentMatch, FoundMatch, Unit
from topology.pattern.store.entry import Entry, Identity


def emitted_rows(unit: Unit, floor_ns: int) -> list[Any]:
    return [
        [id_, old.revision, old.live, old.final, old.content.decided_ns]
        for id_, old in unit.emitted.items()
        if old.content.decided_ns >= floor_ns
    ]


def take_back(unit: Unit, row: Sequence[Any], floor_ns: int) -> None:
    id_, revision, live, final, decided_ns = row
    if decided_ns >= floor_ns:  # else it was decided since it was written
        found = unit.found.get(id_)
        if found is None:  # retracted: only its number counts
            found = FoundMatch(Match(0, ((unit.anchor,),)), decided_ns)
        unit.emitted[id_] = CurrentMatch(found, revision, live=live, final=final)


def waiting_state(unit: Unit, floor_ns: int) -> list[Any]:
    """All of a unit that waits to be looked at: what is current in it cannot be found again."""
    found = [[id_, members(f)] for id_, f in unit.found.items() if f.decided_ns >= floor_ns]
    emitted = [
        [id_, old.revision, old.live, old.final, members(old.content)]
        for id_, old in unit.emitted.items()
        if old.content.decided_ns >= floor_ns
    ]
    waits = None if unit.waits is None else sorted(map(list, unit.waits))
    return [unit.hi_ns, waits, found, emitted]


def waiting_unit(anchor: Entry, state: Any, entries: Mapping[Identity, Entry]) -> tuple[Unit, Any]:
    """Back again, and the slots that it waits for."""
    unit = Unit(anchor)
    unit.hi_ns, waits, found, emitted = state
    unit.found = {id_: found_of(row, entries) for id_, row in found}
    for id_, revision, live, final, row in emitted:
        match = found_of(row, entries)
        unit.emitted[id_] = CurrentMatch(match, revision, live=live, final=final)
    return unit, waits


def members(found: FoundMatch) -> list[Any]:
    """A match by coordinates, as the state has it."""
    match = found.match
    bound = [[list(entry.identity) for entry in entries] for entries in match.bound]
    return [found.decided_ns, found.confidence, match.alternative, bound]


def found_of(members: Any, entries: Mapping[Identity, Entry]) -> FoundMatch:
    decided_ns, confidence, alternative, bound = members
    parts = tuple(tuple(entries[tuple(identity)] for identity in part) for part in bound)
    return FoundMatch(Match(alternative, parts), decided_ns, confidence)
