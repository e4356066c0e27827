"""Defines the entry that a join keeps for an event on one side, and makes entries from events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from topology.answer.frontier import NOT_YET
from topology.answer.query.fields import KeyTexts, at, find_payload_paths
from topology.base.event import Event
from topology.base.one_clock import Distance, Play, distance, has_one_clock
from topology.base.payload import UNREADABLE, Payloads
from topology.queries.join.settings import JoinQuery

Place = tuple[int, str, int, int]
"""The sort key of a side's events: corrected timestamp, source, epoch and sequence number."""


@dataclass(slots=True, eq=False)
class JoinEntry:
    """An event on one side of a join.

    Attributes:
        event: The event.
        side: The index of the side.
        key: The text of the event's key.
        ref_ns: The corrected timestamp of the event.
        error_ns: The time error of the event: its time is in [ref - error, ref + error].
        values: The values of the event that rows show.
        until_ns: The instant until which the entry is kept (`retention`).
        came_ns: The instant up to which possible partners had been released when the event
            arrived (`marks`); NOT_YET if none had.
        is_fresh: Whether the instant in which the event arrived is still open.
        is_kept: Whether the entry is in the index.
    """

    event: Event
    side: int
    key: str
    ref_ns: int
    error_ns: int
    values: tuple[Any, ...]
    until_ns: int = 0
    came_ns: int = NOT_YET
    is_fresh: bool = False
    is_kept: bool = False

    @property
    def coordinates(self) -> tuple[str, int, int]:
        event = self.event
        return event.source, event.epoch, event.seq

    @property
    def place(self) -> Place:
        event = self.event
        return self.ref_ns, event.source, event.epoch, event.seq

    @property
    def age(self) -> tuple[int, int, str, int, int]:
        """The sort key by age: smaller for an older event, and unique within the query."""
        return self.ref_ns, self.side, *self.coordinates

    @property
    def name(self) -> str:
        """A name of the event that is unique among the events of its side."""
        event = self.event
        return f"{event.epoch:d}/{event.seq:d}/{event.source}"

    def has_clock_of(self, other: JoinEntry) -> bool:
        """Return whether one clock stamped both events, so that they share its error."""
        return has_one_clock(self.event, other.event)

    def apart(self, other: JoinEntry, play: Play) -> Distance:
        """Return the least and the greatest event time of `other` relative to this event."""
        return distance(self.event, other.event, self.error_ns + other.error_ns, play)


class JoinReading:
    """A maker of join entries from events.

    A payload is read once, and only if a field of it is needed. A payload that cannot be read has
    no fields, and is counted in `unreadable`. An event without a key is left out, and counted in
    `unkeyed`.
    """

    def __init__(self, query: JoinQuery, payloads: Payloads) -> None:
        self._payloads = payloads
        self._sides = [*enumerate(zip(query.streams, query.types, strict=True))]
        self._keys = query.key_paths
        self._heeds_errors = query.uses_time_errors
        self._texts = KeyTexts()
        self._paths = [
            [path for _, number, path in query.fields if number == side]
            for side in range(len(query.streams))
        ]
        keys = [find_payload_paths(path) for path in self._keys]
        self._reads = [bool(own or key) for own, key in zip(self._paths, keys, strict=True)]
        """Whether a field of the payload is read, for each side."""
        payloads.register_paths([path for paths in (*keys, *self._paths) for path in paths])
        self.unreadable = 0
        self.unkeyed = 0

    def sides(self, event: Event) -> list[int]:
        """Return the sides that the event belongs to."""
        return [
            number
            for number, (stream, type_) in self._sides
            if stream == event.stream and type_ in ("", event.type)
        ]

    def entries(self, event: Event, sides: Sequence[int]) -> list[JoinEntry]:
        """Return an entry for each of the sides on which the event has a key."""
        payload: Any = None
        if any(self._reads[side] for side in sides):
            payload = self._payloads.of(event)
            if payload is UNREADABLE:
                payload = None
                self.unreadable += 1
        error_ns = event.error_ns if self._heeds_errors else 0
        found = []
        for side in sides:
            key = self._texts.of(event.source, payload, self._keys[side])
            if key is None:
                continue
            values = tuple([at(payload, path) for path in self._paths[side]])
            found.append(JoinEntry(event, side, key, event.ref_time_ns, error_ns, values))
        if not found:
            self.unkeyed += 1
        return found
