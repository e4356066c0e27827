"""EMIT SLACK: corrections wait, so that a unit is evaluated once for many late events.

Where a tenth of a query's events come late, correcting at once would
evaluate a unit again and again. Late events are gathered then for the share of late events of a
window, at most for the largest lateness seen, and each unit is evaluated once. Where fewer are
late, it is corrected at once. Events in order never wait.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from topology.model.kept import INT, Kept, Shape
from topology.pattern.store.entry import Entry, Key

NEVER: Final = 1 << 66

HALF_LIFE_EVENTS: Final = 10_000
FEW: Final = 10
"""Below one in so many, corrections are made at once."""


LATENESS: Final = Shape("pattern.lateness", 1, _events=INT, _late=INT, _largest_ns=INT)


class Lateness(Kept):
    """Events of one query, and how many of them came late; older ones count half."""

    SHAPE = LATENESS

    def __init__(self) -> None:
        self._events = 0
        self._late = 0
        self._largest_ns = 0

    def count(self, late_by_ns: int) -> None:
        """An event; `late_by_ns` is 0 where it came in order."""
        self._events += 1
        if late_by_ns > 0:
            self._late += 1
            self._largest_ns = max(self._largest_ns, late_by_ns)
        if self._events >= 2 * HALF_LIFE_EVENTS:
            self._events //= 2
            self._late //= 2

    def wait_ns(self, within_ns: int) -> int:
        """For how long to gather; 0: correct at once."""
        if self._late * FEW < max(self._events, 1):
            return 0
        return min(self._late * within_ns // self._events, self._largest_ns)


class Gathered:
    """The units of one run that wait to be corrected, by their anchors, and until when they wait
    (`due_ns`; NEVER where none does)."""

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
