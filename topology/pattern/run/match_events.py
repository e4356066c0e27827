"""Matches as events of other queries (INTO; patterns_2.md 9).

A match is an event of the type that INTO names, at the time of its end, right behind all others of
that instant. Its payload has `start_ns`, `end_ns`, `key` where the query has one, and the columns;
its time is as unsure as that of its last event, and an uncertain match makes uncertain what is
found with it. What becomes of the match becomes of the event: an update replaces it, a retract
removes it.

A match that moves in time is another event, so that an event is known by its number alone. What is
read of a match is what was written of it: a number beyond 64 bits is null.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from topology.model.event import Event
from topology.model.payload import writable
from topology.model.result import (
    RETRACT,
    SURE,
    MatchResult,
    MatchSetResult,
    Member,
    result_id,
)
from topology.pattern.run.compiled import Compiled
from topology.pattern.run.ledger import Change
from topology.pattern.store.entry import Entry

BEHIND_SOURCES: Final = "\U0010ffff"
"""Before the name of a query it is a source that comes behind all others."""

NUMBER_DIGITS: Final = 15
"""Digits of a digest that are a number, of 60 bits."""


@dataclass(frozen=True, slots=True)
class MatchEvent:
    """What has become of a match. `entry`: the event that it is, or was until it was retracted."""

    query: str
    id: str
    is_current: bool
    entry: Entry


def match_event(
    query: Compiled, change: Change, result: MatchResult | MatchSetResult
) -> MatchEvent:
    payload: dict[str, Any] = {"start_ns": result.start_ns, "end_ns": result.end_ns}
    if result.key is not None:
        payload["key"] = result.key
    if isinstance(result, MatchSetResult):
        payload["count"] = result.count
    payload |= writable(result.values)
    members = result.members if isinstance(result, MatchResult) else []
    entry = entry_of(
        query.query.into,
        query.name,
        result.id,
        result.end_ns,
        change.found.match.last.event.error_ns,
        payload,
        members,
        is_sure=result.confidence in SURE,
    )
    return MatchEvent(query.name, result.id, result.op != RETRACT, entry)


def entry_of(
    into: str,
    query: str,
    id_: str,
    end_ns: int,
    error_ns: int,
    payload: Mapping[str, Any],
    members: Sequence[Member],
    *,
    is_sure: bool,
) -> Entry:
    number = int(result_id(id_.encode(), b"%d" % end_ns)[:NUMBER_DIGITS], 16)
    event = Event("", BEHIND_SOURCES + query, 0, number, end_ns, end_ns, value=payload, type=into)
    event.error_ns = error_ns
    entry = Entry(event, payload)
    entry.inner, entry.is_sure = members, is_sure
    return entry


def row_of(match: MatchEvent) -> list[Any]:
    """As it is in a state."""
    entry, event = match.entry, match.entry.event
    members = [list(member) for member in entry.inner or ()]
    rest = [event.value, members, entry.is_sure, match.is_current]
    return [event.type, match.query, match.id, event.ts_ns, event.error_ns, *rest]


def restored(row: Sequence[Any]) -> MatchEvent:
    into, query, id_, end_ns, error_ns, payload, rows, is_sure, is_current = row
    members = [Member(*each) for each in rows]
    entry = entry_of(into, query, id_, end_ns, error_ns, payload, members, is_sure=is_sure)
    return MatchEvent(query, id_, is_current, entry)
