"""How long EMIT SLACK gathers late events before it corrects (patterns.md 4.4).

Where a tenth of a query's events come late, correcting at once would evaluate a unit again and
again. Late events are gathered then for the share of late events of a window, at most for
the largest lateness seen, and each unit is evaluated once. Where fewer are late, it acts at
once. Events in order never wait.

Proved by: tests/topology/pattern/test_engine_laws.py, tests/topology/pattern/test_operator.py
"""

from __future__ import annotations

from typing import Any, Final

HALF_LIFE_EVENTS: Final = 10_000
FEW: Final = 10
"""Below one in so many, corrections are made at once."""


class Lateness:
    """Events of one query, and how many of them came late; older ones count half."""

    __slots__ = ("_events", "_largest_ns", "_late")

    def __init__(self) -> None:
        self._events = 0
        self._late = 0
        self._largest_ns = 0

    def saw(self, late_by_ns: int) -> None:
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

    def snapshot(self) -> list[int]:
        return [self._events, self._late, self._largest_ns]

    def restore(self, state: Any) -> None:
        self._events, self._late, self._largest_ns = state
