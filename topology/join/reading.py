"""What a join takes from an event: the sides it stands on, its key, and the values rows show.

The payload is read once, and only if something of it is needed. One that cannot be read has no
fields and is counted in `unreadable`; an event without a key is left out and counted in
`unkeyed`.

Proved by: tests/topology/join/test_examples.py, tests/topology/join/test_oracle.py
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from topology.join.config import JoinConfig
from topology.join.entry import JoinEntry
from topology.model.event import Event
from topology.model.payload import UNREADABLE
from topology.query.fields import NO_KEY, Decode, at
from topology.query.numbers import scalar, text_of


class JoinReading:
    """`unreadable` and `unkeyed` only grow."""

    def __init__(self, config: JoinConfig, decode: Decode) -> None:
        self._sides = config.sides
        self._heeds_errors = config.heeds_errors
        self._decode = decode
        self._paths = [
            [field.path for field in config.fields if field.side == side]
            for side in range(len(config.sides))
        ]
        self._by_stream: dict[str, list[int]] = {}
        for number, side in enumerate(config.sides):
            self._by_stream.setdefault(side.stream, []).append(number)
        self.unreadable = 0
        self.unkeyed = 0

    def sides(self, event: Event) -> list[int]:
        """On which it stands."""
        numbers = self._by_stream.get(event.stream, [])
        return [each for each in numbers if self._sides[each].type in ("", event.type)]

    def entries(self, event: Event, sides: Sequence[int]) -> list[JoinEntry]:
        """None for a side on which it has no key."""
        payload: Any = None
        if any(self._paths[side] or self._sides[side].key is not None for side in sides):
            payload = self._decode(event.value)
            if payload is UNREADABLE:
                payload = None
                self.unreadable += 1
        error_ns = event.error_ns if self._heeds_errors else 0
        found = []
        for side in sides:
            key = NO_KEY
            path = self._sides[side].key
            if path is not None:
                value = scalar(at(payload, path))
                if value is None:
                    continue
                key = text_of(value)
            values = tuple([at(payload, path) for path in self._paths[side]])
            found.append(JoinEntry(event, side, key, error_ns, values))
        if not found:
            self.unkeyed += 1
        return found
