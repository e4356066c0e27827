"""A unit as the state table has it: revisions, and of one that waits to be looked at all of it.

What stands in a unit can be found again from the events it rests on, so only what was said of
it is written. Not so where late events are gathered (EMIT SLACK): its events are there
already, and it has not been looked at since.

Proved by: tests/topology/pattern/test_engine_laws.py,
tests/topology/pattern/test_published_cases.py
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from topology.pattern.match.match import Match
from topology.pattern.run.ledger import Found, Said, Unit
from topology.pattern.store.entry import Entry, Identity


def said_rows(unit: Unit, floor_ns: int) -> list[Any]:
    return [
        [id_, said.revision, said.live, said.final, said.found.decided_ns]
        for id_, said in unit.said.items()
        if said.found.decided_ns >= floor_ns
    ]


def take_back(unit: Unit, row: Sequence[Any], floor_ns: int) -> None:
    id_, revision, live, final, decided_ns = row
    if decided_ns >= floor_ns:  # else it was decided since it was written
        found = unit.found.get(id_)
        if found is None:  # retracted: only its number counts
            found = Found(Match(0, ((unit.anchor,),)), decided_ns)
        said = unit.said[id_] = Said(found, revision)
        said.live, said.final = live, final


def waiting_state(unit: Unit, floor_ns: int) -> list[Any]:
    """All of a unit that waits to be looked at: what stands in it cannot be found again."""
    found = [[id_, members(f)] for id_, f in unit.found.items() if f.decided_ns >= floor_ns]
    said = [
        [id_, said.revision, said.live, said.final, members(said.found)]
        for id_, said in unit.said.items()
        if said.found.decided_ns >= floor_ns
    ]
    waits = None if unit.waits is None else sorted(map(list, unit.waits))
    return [unit.hi_ns, waits, found, said]


def waiting_unit(anchor: Entry, state: Any, entries: Mapping[Identity, Entry]) -> tuple[Unit, Any]:
    """Back again, and the slots that it waits for."""
    unit = Unit(anchor)
    unit.hi_ns, waits, found, said = state
    unit.found = {id_: found_of(row, entries) for id_, row in found}
    for id_, revision, live, final, row in said:
        unit.said[id_] = Said(found_of(row, entries), revision)
        unit.said[id_].live, unit.said[id_].final = live, final
    return unit, waits


def members(found: Found) -> list[Any]:
    """A match by coordinates, as the state has it."""
    match = found.match
    bound = [[list(entry.identity) for entry in entries] for entries in match.bound]
    return [found.decided_ns, found.confidence, match.alternative, bound]


def found_of(members: Any, entries: Mapping[Identity, Entry]) -> Found:
    decided_ns, confidence, alternative, bound = members
    parts = tuple(tuple(entries[tuple(identity)] for identity in part) for part in bound)
    return Found(Match(alternative, parts), decided_ns, confidence)
