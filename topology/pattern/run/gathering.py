"""EMIT SLACK: units that late events changed are looked at later, with what else comes by then.

Each unit is so evaluated once, not for every late event again. For how long is gathered is said by
`topology.pattern.run.lateness`.

Proved by: tests/topology/pattern/test_engine_laws.py, tests/topology/pattern/test_state_stays.py
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from topology.pattern.store.entry import Entry, Key

NEVER: Final = 1 << 66


class Gathered:
    """The units of one run, by their anchors, and until when they wait (`due_ns`; NEVER where none
    does)."""

    __slots__ = ("anchors", "due_ns")

    def __init__(self) -> None:
        self.anchors: dict[Key, Entry] = {}
        self.due_ns = NEVER

    def add(self, anchors: Iterable[Entry], due_ns: int) -> None:
        """Those that come later wait no longer than the first."""
        self.anchors.update((anchor.key, anchor) for anchor in anchors)
        if self.due_ns == NEVER:
            self.due_ns = due_ns

    def take(self) -> list[Entry]:
        taken = [self.anchors[key] for key in sorted(self.anchors)]
        self.anchors.clear()
        self.due_ns = NEVER
        return taken

    @property
    def since_ns(self) -> int:
        return min(anchor.time_ns for anchor in self.anchors.values())
