"""Schedules the units of a level that must be looked at again later.

A timer has only an instant and a unit. When the timer is due, the unit's results are chosen again
(`decide`), which also sets the unit's next timer.

| clock | instant that it follows | units scheduled on it |
| --- | --- | --- |
| `events` | the newest event or watermark | waiting for the end of an absence |
| `frontier` | the instant before which all events have arrived | with EMIT FINAL or `emits_final` |
| `Wiring.at_target` | the instant up to which a query may emit | with a quality target |
| arrival (`gathering`) | the arrival of events | with gathered corrections (EMIT SLACK) |
| `barriers` | the frontier | runs whose barrier row (SKIP) may change |

EMIT SLACK: if at least a tenth of a query's events is late, correcting at once would evaluate the
same unit many times. So late events are gathered, and each unit is evaluated once. The wait is the
window multiplied by the share of late events, and at most the largest lateness. A duration after
SLACK replaces this wait. Events in order never wait.
"""

from __future__ import annotations

from typing import Final

from topology.model.saved import INT, Saved, Shape
from topology.model.timers import Timers
from topology.pattern.run.unit import BEFORE_ALL_TIME, MatchUnit, UnitOwner

HALF_LIFE_EVENTS: Final = 10_000
FEW: Final = 10
"""Corrections are made at once if fewer than one in this many events is late."""


LATENESS: Final = Shape("pattern.lateness", 1, _events=INT, _late=INT, _largest_ns=INT)


class Lateness(Saved):
    """The counts of one query's events and of its late events, with exponential decay."""

    SHAPE = LATENESS

    def __init__(self) -> None:
        self._events = 0
        self._late = 0
        self._largest_ns = 0

    def count(self, late_by_ns: int) -> None:
        """Count an event that was late by `late_by_ns`, which is 0 for an event in order."""
        self._events += 1
        if late_by_ns > 0:
            self._late += 1
            self._largest_ns = max(self._largest_ns, late_by_ns)
        if self._events >= 2 * HALF_LIFE_EVENTS:
            self._events //= 2
            self._late //= 2

    def wait_ns(self, within_ns: int) -> int:
        """Return for how long to gather corrections; 0 means to correct at once."""
        if self._late * FEW < max(self._events, 1):
            return 0
        return min(self._late * within_ns // self._events, self._largest_ns)


class Agenda:
    """The timers of a level, and the runs with gathered corrections.

    Attributes:
        events: The timers that follow the newest event or watermark.
        frontier: The timers that follow the frontier.
        barriers: The timers of the runs whose barrier row may change. They follow the frontier.
        gathering: The runs with gathered corrections.
        quiet_ns: The instant up to which the frontier may move without any effect.
    """

    def __init__(self) -> None:
        self.events: Timers[MatchUnit] = Timers()
        self.frontier: Timers[MatchUnit] = Timers()
        self.barriers: Timers[UnitOwner] = Timers()
        self.gathering: dict[UnitOwner, None] = {}
        self.quiet_ns = BEFORE_ALL_TIME

    @property
    def next_ns(self) -> int:
        """The instant before which no timer in `events` or `frontier` is due."""
        return min(self.events.next_ns, self.frontier.next_ns)

    def next_arrival_ns(self) -> int:
        """Return the arrival time at which the first gathered corrections are due."""
        return min(run.gathered.due_ns for run in self.gathering)

    def take_gathered(self, due_ns: int, frontier_ns: int) -> list[MatchUnit]:
        """Evaluate the gathered units of the runs that are due, and return those to emit.

        A run is due at its own time, or if the frontier passes the first anchor of its gathered
        units.
        """
        found = []
        for run in list(self.gathering):
            if run.gathered.due_ns <= due_ns or run.gathered.since_ns < frontier_ns:
                del self.gathering[run]
                found += run.evaluate_gathered()
        return found
