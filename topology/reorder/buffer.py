"""What REORDER knows of each source, whichever way it puts its events in order."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from topology.model.event import Event
from topology.model.journal import Tracked
from topology.model.operator import NEVER
from topology.model.outcome import Step


class Totals:
    """What all sources of an operator hold together: events, and their payload in bytes.
    `overflows` counts how often a bound made room; `waited_ns` adds up how long those that have
    left had been held; missing numbers were `filled` in time, or have `outlived` their wait.
    """

    __slots__ = ("filled", "held", "held_bytes", "outlived", "overflows", "waited_ns")

    def __init__(self) -> None:
        self.held = 0
        self.held_bytes = 0
        self.overflows = 0
        self.waited_ns = 0
        self.filled = 0
        self.outlived = 0


class SourceBuffer(Tracked):
    """The waiting events of one source: `held` of them, `held_bytes` of payload. `blocked`: MERGE
    knows that events wait here. The rest is the operator's book-keeping."""

    __slots__ = (
        "armed_ns",
        "blocked",
        "held",
        "held_bytes",
        "is_open",
        "last_arrival_ns",
    )

    def __init__(self, source: str) -> None:
        super().__init__(source)
        self.last_arrival_ns = 0
        self.blocked = False
        self.held = 0
        self.held_bytes = 0
        self.armed_ns = NEVER
        self.is_open = False

    def busy(self) -> bool:
        """It holds events, so it must not be forgotten."""
        return self.held > 0

    def deadline_ns(self) -> int:
        """The next instant at which something is due here; NEVER if nothing is."""
        raise NotImplementedError

    def fire(self, now_ns: int, step: Step) -> None:
        """Something is due, at or before `now_ns`."""
        raise NotImplementedError

    def end(self, now_ns: int, step: Step) -> None:
        """The input is over: all that waits leaves in order."""
        raise NotImplementedError

    def waiting(self) -> Iterable[Event]:
        raise NotImplementedError

    def explained(self) -> dict[str, Any]:
        """For people: what it waits for, since when and until when."""
        raise NotImplementedError


def name_of(buffer: SourceBuffer) -> str:
    return buffer.source
