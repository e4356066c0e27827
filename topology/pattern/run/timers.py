"""Units that want to be looked at again at an instant: of the clock, of the frontier, or of what a
query has promised.

Proved by: tests/topology/pattern/test_engine_laws.py,
tests/topology/pattern/test_published_cases.py
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush

from topology.pattern.run.partitions import Hall
from topology.pattern.run.run import CLOCK, PROMISE, Run
from topology.pattern.store.entry import Key

Wait = tuple[int, int, Hall, Run, Key]
"""When, in what order of asking, and who."""


class Waits:
    """The waits of all runs of an engine."""

    def __init__(self) -> None:
        self._at_clock: list[Wait] = []
        self._at_floor: list[Wait] = []
        self._at_promise: dict[str, list[Wait]] = {}
        self._serial = 0

    def collect(self, run: Run, hall: Hall) -> None:
        """What the run asks for."""
        for why, ns, key in run.due:
            self._serial += 1
            if why == PROMISE:
                waiting = self._at_promise.setdefault(run.query.name, [])
            elif why == CLOCK:
                waiting = self._at_clock
            else:
                waiting = self._at_floor
                ns += hall.amend_ns
            heappush(waiting, (ns, self._serial, hall, run, key))
        run.due.clear()

    def at_clock(self, clock_ns: int) -> Iterator[tuple[Hall, Run, Key]]:
        return _before(self._at_clock, clock_ns)

    def at_floor(self, frontier_ns: int) -> Iterator[tuple[Hall, Run, Key]]:
        return _before(self._at_floor, frontier_ns)

    def at_promise(self, query: str, until_ns: int) -> Iterator[tuple[Hall, Run, Key]]:
        return _before(self._at_promise.get(query, []), until_ns)

    def are_due(self, frontier_ns: int, promised_ns: int) -> bool:
        """With the frontier there, or what queries promise, anybody would be looked at."""
        waits = [(wait, frontier_ns) for wait in (self._at_floor, self._at_clock)]
        waits += [(wait, max(frontier_ns, promised_ns)) for wait in self._at_promise.values()]
        return any(wait and wait[0][0] < ns for wait, ns in waits)


def _before(waits: list[Wait], until_ns: int) -> Iterator[tuple[Hall, Run, Key]]:
    """Those that are due, as they are taken."""
    while waits and waits[0][0] < until_ns:
        _, _, hall, run, key = heappop(waits)
        yield hall, run, key
