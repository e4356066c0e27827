"""An event as one side of a join keeps it, and how it is read from the payload."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from topology.answer.frontier import NOT_YET
from topology.join.settings import JoinSettings
from topology.model.event import Event
from topology.model.one_clock import Distance, Play, distance, has_one_clock
from topology.model.payload import UNREADABLE, read_payload
from topology.query.fields import KeyTexts, at

Place = tuple[int, str, int, int]
"""Reference time, source, epoch, seq: the order of a side's events."""


@dataclass(slots=True, eq=False)
class JoinEntry:
    """The true time lies in [ref - error, ref + error]. `values` are those that rows show of it.
    It is kept until `until_ns` (`retention`). `came_ns`: see `marks`. `is_fresh`: the instant in
    which it came is not over. `is_kept`: it is in the index."""

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
        """Smaller is older; no two of a query are alike."""
        return self.ref_ns, self.side, *self.coordinates

    @property
    def name(self) -> str:
        """No other event of the side has it."""
        event = self.event
        return f"{event.epoch:d}/{event.seq:d}/{event.source}"

    def has_clock_of(self, other: JoinEntry) -> bool:
        """What it is off, it is for both."""
        return has_one_clock(self.event, other.event)

    def apart(self, other: JoinEntry, play: Play) -> Distance:
        """From this one to the other, in true time."""
        return distance(self.event, other.event, self.error_ns + other.error_ns, play)


class JoinReading:
    """Makes entries of events. The payload is read once, and only if a field of it is needed. One
    that cannot be read has no fields and is counted in `unreadable`; an event without a key is left
    out and counted in `unkeyed`."""

    def __init__(self, query: JoinSettings) -> None:
        self._sides = [*enumerate(zip(query.streams, query.types, strict=True))]
        self._keys = query.key_paths
        self._heeds_errors = query.heeds_errors
        self._texts = KeyTexts()
        self._paths = [
            [path for _, number, path in query.fields if number == side]
            for side in range(len(query.streams))
        ]
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
        """None for a side on which it has no key."""
        payload: Any = None
        if any(self._paths[side] or self._keys[side] is not None for side in sides):
            payload = read_payload(event.value)
            if payload is UNREADABLE:
                payload = None
                self.unreadable += 1
        error_ns = event.error_ns if self._heeds_errors else 0
        found = []
        for side in sides:
            key = self._texts.of(payload, self._keys[side])
            if key is None:
                continue
            values = tuple([at(payload, path) for path in self._paths[side]])
            found.append(JoinEntry(event, side, key, event.ref_time_ns, error_ns, values))
        if not found:
            self.unkeyed += 1
        return found
