"""Defines the pattern engine's view of an event: its place in the order, and its fields.

An entry is made once, when an event is accepted, and is shared by all queries of an engine.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any, Final

from topology.model.event import Event
from topology.model.one_clock import STEADY, Play
from topology.model.result import Member

Key = tuple[Any, ...]
"""(ref_time_ns, source, epoch, seq): the total order of all entries.

The type leaves the length open, so compiled code passes the one tuple on. With four typed parts the
compiler would build a new tuple each time.
"""

Identity = tuple[Any, ...]
"""(source, epoch, seq): two records with the same identity are the same event."""


class Entry:
    """An accepted event with its decoded payload, as indexes and queries use it.

    Attributes:
        payload: The decoded value: a dict if it has fields, anything else if it has none.
        low_ns: The event time is not earlier.
        high_ns: The event time is not later.
        places: The number of indexes that hold the entry.
        spelled: See `match.anchors`.
        member: See `run.emit`.
        play: The play of its clock.
        inner: The events of an entry that is itself a match (`match.match_events`).
        is_sure: Whether that match is confirmed.
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

    def is_copy_of(self, other: Entry) -> bool:
        """Return whether an entry of the same identity has the same time, type and payload."""
        return (
            self.time_ns == other.time_ns
            and self.type == other.type
            and repr(self.payload) == repr(other.payload)
        )

    def __repr__(self) -> str:
        return f"<{self.type} {self.time_ns} {self.event.source}/{self.event.seq:d}>"


key_of: Final = attrgetter("key")
"""The function that returns an entry's key, to sort by."""
