"""Timers of units: the instants at which they want to be looked at again.

A unit waits for one of three lines of time to pass an instant: the clock of the events, the
frontier, or what its query may emit (`quality`). Each line has timers of its own.

Cost: O(log n) for a timer. A unit that is gone when its timer comes is passed over.

Proved by: tests/topology/pattern/test_engine_laws.py,
tests/topology/pattern/test_published_cases.py
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from typing import Final, Protocol

from topology.model.operator import NEVER
from topology.pattern.run.ledger import Now
from topology.pattern.store.entry import Key

FAR_OFF_NS: Final = 16 * NEVER
"""After every instant there is."""


class Asker(Protocol):
    def ask_again(self, anchor: Key, now: Now) -> None:
        """An instant has come that the unit of this anchor asked for."""
        ...


class UnitTimers:
    """One line of time, for all runs; timers of one instant come in the order they were set.
    `next_ns`: the earliest, `FAR_OFF_NS` where there is none."""

    __slots__ = ("_heap", "_serial", "next_ns")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Asker, Key]] = []
        self._serial = 0
        self.next_ns: int = FAR_OFF_NS

    def set(self, ns: int, run: Asker, anchor: Key) -> None:
        self._serial += 1
        heappush(self._heap, (ns, self._serial, run, anchor))
        self.next_ns = min(self.next_ns, ns)

    def is_due(self, until_ns: int) -> bool:
        return self.next_ns < until_ns

    def due(self, until_ns: int) -> Iterator[tuple[Asker, Key]]:
        """Those of before that instant, as they are taken; also what they set meanwhile."""
        while self.next_ns < until_ns:
            _, _, run, anchor = heappop(self._heap)
            self.next_ns = self._heap[0][0] if self._heap else FAR_OFF_NS
            yield run, anchor
