"""Turns matches into events that other queries read (INTO), and stores these events.

A match becomes an event of the type that INTO names. Its time is the end of the match, and it sorts
after all other events of that instant. Its payload has `start_ns`, `end_ns`, the columns, and `key`
if the query has one. Values are those that consumers of the match get, so a number beyond 64 bits
is null.

Its time error is that of the match's last event. An uncertain match makes every match that contains
it uncertain. An update of the match replaces the event, and a retract removes it.

The event's sequence number is a digest of the match's id and end. So a match whose end moves
becomes another event.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Final

from topology.base.event import Event
from topology.base.operator import State
from topology.base.payload import to_writable
from topology.base.result import RETRACT, SURE, MatchResult, MatchSetResult, Member, result_id
from topology.queries.pattern.match.compiled import Compiled
from topology.queries.pattern.store.entry import Entry, Identity
from topology.state.saved import FLAG, INT, PLAIN, TEXT, list_of, record
from topology.state.tables import Table

BEHIND_SOURCES: Final = "\U0010ffff"
"""The prefix of the source of a match's event; this source sorts after all others."""

LOOK_AT: Final = 64
"""The minimum number of matches at which a purge is worth its cost."""

NUMBER_DIGITS: Final = 15
"""The number of hexadecimal digits of a digest that form a sequence number, 60 bits."""


@dataclass(slots=True)
class MatchEvent:
    """The latest state of a match; `entry` is the event that represents it until its retract."""

    into: str
    query: str
    id: str
    end_ns: int
    error_ns: int
    payload: dict[str, Any]
    members: list[Member]
    is_sure: bool
    is_current: bool = True
    entry: Entry = field(init=False)

    def __post_init__(self) -> None:
        number = int(result_id(self.id.encode(), b"%d" % self.end_ns)[:NUMBER_DIGITS], 16)
        times_ns = self.end_ns, self.end_ns
        source = BEHIND_SOURCES + self.query
        event = Event("", source, 0, number, *times_ns, value=self.payload, type=self.into)
        event.error_ns = self.error_ns
        self.entry = Entry(event, self.payload)
        self.entry.inner, self.entry.is_sure = self.members, self.is_sure

    def is_same_as(self, other: MatchEvent) -> bool:
        """Return whether those who read the match see no difference."""
        # The texts are compared because 1, 1.0 and true are equal in Python.
        return READ(self) == READ(other) and repr(self.payload) == repr(other.payload)


READ: Final = attrgetter("end_ns", "error_ns", "members", "is_sure", "is_current")
"""A function that returns what others read of a match, except the payload."""


MATCH_EVENT: Final = record(
    MatchEvent,
    into=TEXT,
    query=TEXT,
    id=TEXT,
    end_ns=INT,
    error_ns=INT,
    payload=PLAIN,
    members=list_of(record(Member, alias=TEXT, source=TEXT, epoch=INT, seq=INT, ref_time_ns=INT)),
    is_sure=FLAG,
    is_current=FLAG,
)


def make_match_event(
    query: Compiled, result: MatchResult | MatchSetResult, error_ns: int
) -> MatchEvent:
    """Return the latest state of a match; `error_ns` is the time error of its last event."""
    payload: dict[str, Any] = {"start_ns": result.start_ns, "end_ns": result.end_ns}
    if result.key is not None:
        payload["key"] = result.key
    if isinstance(result, MatchSetResult):
        payload["count"] = result.count
    payload |= to_writable(result.values)
    return MatchEvent(
        query.query.into,
        query.name,
        result.id,
        result.end_ns,
        error_ns,
        payload,
        result.members if isinstance(result, MatchResult) else [],
        is_sure=result.confidence in SURE,
        is_current=result.op != RETRACT,
    )


class MatchTable(Table[Identity, MatchEvent]):
    """The matches that other queries read, by the identities of their events.

    Retracted matches are kept while they are within reach of the queries that read them. If such a
    match returns, the revisions of the matches that contain it continue.
    """

    def __init__(self) -> None:
        super().__init__("match/", MATCH_EVENT)
        self._look_at = LOOK_AT
        self._current: dict[tuple[str, str], Identity] = {}

    def name_of(self, key: Identity) -> str:
        return f"{key[2]}/{key[0]}"

    def key_of(self, name: str) -> Identity:
        number, source = name.split("/", 1)
        return source, 0, int(number)

    def put(self, key: Identity, row: MatchEvent) -> None:
        self.rows[key] = row
        if row.is_current:
            self._current[row.query, row.id] = key

    def forget(self, key: Identity) -> None:
        event = self.rows[key]
        if event.is_current:
            del self._current[event.query, event.id]
        super().forget(key)

    def take(self, events: Iterable[MatchEvent]) -> tuple[list[Entry], list[Entry]]:
        """Apply the latest states of matches, and return the old events and the new ones.

        The old events are no longer valid. The new ones replace them or are added. A match that
        only becomes final keeps its event.
        """
        old: list[Entry] = []
        new: dict[Identity, Entry] = {}
        for event in events:
            identity = self._current.get((event.query, event.id))
            if identity is not None:
                known = self.rows[identity]
                if known.is_same_as(event):
                    continue
                del self._current[event.query, event.id]
                known.is_current = False
                self.note(identity)
                if new.pop(identity, None) is None:
                    old.append(known.entry)
            if event.is_current:
                identity = event.entry.identity
                new[identity] = event.entry
                self.put(identity, event)
                self.note(identity)
        return old, [*new.values()]

    @property
    def is_large(self) -> bool:
        """Whether the table has grown so much that a purge is worth its cost."""
        return len(self.rows) >= self._look_at

    def purge(self, before_ns: int) -> None:
        """Forget the matches that end before `before_ns`."""
        for identity, event in list(self.rows.items()):
            if event.end_ns < before_ns:
                self.forget(identity)
        self._look_at = max(LOOK_AT, 2 * len(self.rows))

    def restore(self, rest: State, types: Collection[str]) -> list[MatchEvent]:
        """Take the table's rows out of a state and return the matches of these types.

        Matches of other types are forgotten.
        """
        mine = {name: rest.pop(name) for name in list(rest) if name.startswith(self.prefix)}
        for _ in self.read(mine):
            pass
        self.reset_changes(is_written=True)
        for identity, event in list(self.rows.items()):
            if event.into not in types:
                self.forget(identity)
        return list(self.rows.values())
