"""Defines the entry: an event as the pattern engine sees it, with its sort key and payload.

An entry is made once, when an event is accepted, and is shared by all queries of an engine.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any, Final

from topology.base.event import Event
from topology.base.one_clock import STEADY, Play
from topology.base.result import Member

Key = tuple[Any, ...]
"""(ref_time_ns, source, epoch, seq): the sort key that orders all entries totally.

The type leaves the tuple's length open, so that compiled code passes the same tuple on. With four
typed elements the compiler would build a new tuple for each call.
"""

Identity = tuple[Any, ...]
"""(source, epoch, seq): the same for two records of the same event."""


class Entry:
    """An accepted event with its decoded payload, as stored in the indexes.

    Attributes:
        payload: The decoded value: a dict if it has fields, otherwise any JSON value.
        low_ns: The earliest possible event time, by the event's time error.
        high_ns: The latest possible event time.
        places: The number of indexes that contain the entry.
        spelled: The encoded identity, cached by `match.ids`.
        member: The entry as a member of a result, cached by `run.match_results`.
        play: The play of the clock that gave the event's time.
        inner: The events of the match, if the entry is itself a match (`match.match_events`).
        is_sure: Whether that match is confirmed; True for an event.
    """

    __slots__ = (
        "event",
        "high_ns",
        "identity",
        "inner",
        "is_sure",
        "key",
        "low_ns",
        "member",
        "payload",
        "places",
        "play",
        "spelled",
        "time_ns",
        "type",
    )

    def __init__(self, event: Event, payload: Any, play: Play = STEADY) -> None:
        self.event = event
        self.payload = payload
        self.type = event.type
        self.time_ns = self.low_ns = self.high_ns = event.ref_time_ns
        if event.error_ns:
            self.low_ns -= event.error_ns
            self.high_ns += event.error_ns
        self.key: Key = (event.ref_time_ns, event.source, event.epoch, event.seq)
        self.identity: Identity = (event.source, event.epoch, event.seq)
        self.places = 0
        self.play = play
        self.spelled = b""
        self.member: Member | None = None
        self.inner: Sequence[Member] | None = None
        self.is_sure = True

    def is_duplicate_of(self, other: Entry) -> bool:
        """Return whether another entry of the same identity has the same time, type and payload."""
        return (
            self.time_ns == other.time_ns
            and self.type == other.type
            and repr(self.payload) == repr(other.payload)
        )

    def __repr__(self) -> str:
        return f"<{self.type} {self.time_ns} {self.event.source}/{self.event.seq:d}>"


key_of: Final = attrgetter("key")
"""A function that returns an entry's sort key, for use as a `key` function."""
