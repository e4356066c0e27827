"""How records were read before the topology file changed, for those that are still held.

When a partition is restored under another mapping, it notes for all records below the offset where
reading goes on how they were read. A note is state, and goes when nothing below its offset is held.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from agents.state import changelog
from topology.config.change import Contract, StreamContract

Streams = dict[str, StreamContract]


class Readings:
    """The readings of before, each by the offset below which it holds."""

    def __init__(self) -> None:
        self._until: dict[int, Streams] = {}
        self._changed: dict[int, Streams | None] = {}

    def __bool__(self) -> bool:
        return bool(self._until)

    def load(self, name: str, value: bytes) -> None:
        until = int(name[len(changelog.READING) :])
        self._until[until] = msgspec.msgpack.decode(value, type=Streams)
        self._changed.pop(until, None)  # Nothing came since that change: the earlier reading holds.

    def note(self, until: int, before: Contract, now: Contract) -> None:
        """Keep how records below `until` were read, where that is another way than now."""
        was = {name: stream.reading for name, stream in before.streams.items()}
        if was != {name: stream.reading for name, stream in now.streams.items()}:
            self._until[until] = self._changed[until] = before.streams

    def of(self, offset: int) -> Streams | None:
        """Return how the record at this offset was read; None: as records are read now."""
        until = min((each for each in self._until if each > offset), default=None)
        return None if until is None else self._until[until]

    def changes(self, oldest: int | None) -> Mapping[str, Any]:
        """Return what changed since the last call. `oldest`: the first offset that is held."""
        for until in [each for each in self._until if oldest is None or each <= oldest]:
            del self._until[until]
            if self._changed.pop(until, None) is None:  # It has been written.
                self._changed[until] = None
        changed, self._changed = self._changed, {}
        return {f"{changelog.READING}{until}": streams for until, streams in changed.items()}
