"""Matches as events of other queries (INTO).

A match is an event of the type that INTO names, at the time of its end, right behind all others of
that instant. Its payload has `start_ns`, `end_ns`, `key` where the query has one, and the columns;
its time is as unsure as that of its last event, and an uncertain match makes uncertain what is
found with it. What becomes of the match becomes of the event: an update replaces it, a retract
removes it.

A match that moves in time is another event, so that an event is known by its number alone. What is
read of a match is what was written of it: a number beyond 64 bits is null.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
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
from topology.pattern.match.compiled import Compiled
from topology.pattern.store.entry import Entry, Identity

BEHIND_SOURCES: Final = "\U0010ffff"
"""Before the name of a query it is a source that comes behind all others."""

MATCH: Final = "match/"
"""Before the keys of their rows in a state."""

LOOK_AT: Final = 64
"""A table of fewer matches is not large."""

NUMBER_DIGITS: Final = 15
"""Digits of a digest that are a number, of 60 bits."""


@dataclass(frozen=True, slots=True)
class MatchEvent:
    """What has become of a match. `entry`: the event that it is, or was until it was retracted."""

    query: str
    id: str
    is_current: bool
    entry: Entry


def match_event(query: Compiled, result: MatchResult | MatchSetResult, error_ns: int) -> MatchEvent:
    """Return what has become of a match. `error_ns`: that of its last event."""
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
        error_ns,
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


class MatchTable:
    """The matches that other queries read, by the identities of the events that they are.

    Withdrawn ones are known too, as long as the reach of the readers has them: the revisions of
    what was found by one go on if it comes again.
    """

    def __init__(self) -> None:
        self._look_at = LOOK_AT
        self._known: dict[Identity, MatchEvent] = {}
        self._current: dict[tuple[str, str], Identity] = {}
        self._changed: dict[Identity, None] = {}

    def take(self, events: Iterable[MatchEvent]) -> tuple[list[Entry], list[Entry]]:
        """Take what has become of matches. Return the events that they are no more, and those that
        they are now."""
        old: list[Entry] = []
        new: dict[Identity, Entry] = {}
        for event in events:
            identity = self._current.pop((event.query, event.id), None)
            if identity is not None and new.pop(identity, None) is None:
                old.append(self._known[identity].entry)
            if identity is not None:
                self._note(replace(self._known[identity], is_current=False))
            if event.is_current:
                new[event.entry.identity] = event.entry
                self._note(event)
        return old, [*new.values()]

    def leave_out(self, entry: Entry) -> None:
        """Forget a match for which there was no room."""
        event = self._known.pop(entry.identity)
        del self._current[event.query, event.id]
        self._changed[entry.identity] = None

    def _note(self, event: MatchEvent) -> None:
        identity = event.entry.identity
        self._known[identity] = event
        self._changed[identity] = None
        if event.is_current:
            self._current[event.query, event.id] = identity

    @property
    def is_large(self) -> bool:
        """Whether it has grown so much that somebody should look which matches are over."""
        return len(self._known) >= self._look_at

    def forget(self, before_ns: int) -> None:
        """Let go of matches of before that instant."""
        for identity, event in list(self._known.items()):
            if event.entry.time_ns < before_ns:
                del self._known[identity]
                self._current.pop((event.query, event.id), None)
                self._changed[identity] = None
        self._look_at = max(LOOK_AT, 2 * len(self._known))

    def rows(self, *, everything: bool) -> dict[str, Any]:
        """Return the rows of all matches, or of those that changed since this was last asked."""
        rows: dict[str, Any] = {}
        for identity in self._known if everything else self._changed:
            source, _, number = identity
            event = self._known.get(identity)
            rows[f"{MATCH}{number}/{source}"] = event and row_of(event)
        if not everything:
            self._changed.clear()
        return rows

    def restore(self, rest: dict[str, Any], read: Collection[str]) -> list[MatchEvent]:
        """Take the rows of matches of these types out of a state, and return what they say."""
        found = {key: restored(rest[key]) for key in rest if key.startswith(MATCH)}
        events = [event for event in found.values() if event.entry.type in read]
        for key, event in found.items():
            if event.entry.type in read:
                del rest[key]
                self._note(event)
        self._changed.clear()
        return events
