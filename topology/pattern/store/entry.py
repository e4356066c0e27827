"""An event as the pattern engine looks at it: its place in the order, and its fields.

Made once when an event is accepted and shared by all queries of an engine.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from topology.model.event import Event
from topology.model.one_clock import STEADY, Play
from topology.model.result import Member

Key = tuple[Any, ...]
"""(ref_time_ns, source, epoch, seq): the total order of everything in this room. The compiler does
not know its length, and so hands on the one object; one of four it would build anew each time."""

Identity = tuple[Any, ...]
"""(source, epoch, seq): what makes two records the same event."""


class Entry:
    """`payload` is the decoded value: a dict where it has fields, anything else where it has
    none. The true time is not before `low_ns`, nor behind `high_ns`. `places`: how many indexes
    hold it. `spelled`: see `match.anchors`;
    `member`: see `run.emit`; `play`: that of its clock. `inner`: the events of one that is a match
    (`match.match_events`), and `is_sure`: that match is confirmed."""

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
        """Whether an entry of the same identity says the same."""
        return (
            self.time_ns == other.time_ns
            and self.type == other.type
            and repr(self.payload) == repr(other.payload)
        )

    def __repr__(self) -> str:
        return f"<{self.type} {self.time_ns} {self.event.source}/{self.event.seq:d}>"


def key_of(entry: Entry) -> Key:
    """Return the entry's place in the order, to sort by."""
    return entry.key
