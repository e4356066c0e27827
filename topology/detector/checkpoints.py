"""What the log of a key can go back to: the state at C, and those behind entries that were read."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from topology.detector.item import ABSENT, FIRST, UNREAD, Key, LogEntry
from topology.model.operator import NEVER


class Base:
    """The state at C, frozen (ABSENT: `live` is there), and what a cursor begins with."""

    __slots__ = ("due_ns", "high_ns", "last", "state", "ticks")

    def __init__(self) -> None:
        self.state: Any = ABSENT
        self.high_ns = -NEVER
        self.last: Key = FIRST
        self.ticks = 0
        self.due_ns: int = NEVER


class Checkpoints(NamedTuple):
    """Where they are. `runs`: how many entries have one, have none, have one, and so on; `since`:
    how many were read behind the last."""

    runs: list[int]
    since: int


EACH: Final = Checkpoints([], 0)
"""Each entry that was read has one."""


def runs_of(entries: Iterable[LogEntry]) -> list[int]:
    """The entries were read, but for one that has just come: it is put when they have been."""
    runs = [0]
    is_bare = False
    for entry in entries:
        if entry.high_ns == UNREAD:
            continue
        if (entry.after is ABSENT) != is_bare:
            is_bare = not is_bare
            runs.append(0)
        runs[-1] += 1
    return runs
