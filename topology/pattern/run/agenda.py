"""Keeps the units of a level that must be looked at again at some later time.

An entry is a hint: an instant of a clock, and a unit. The code that takes a unit finds again which
results may be emitted, and arms the unit for the next instant.

| clock | what it follows | what waits for it |
| --- | --- | --- |
| `events` | the newest event or watermark | the end of an absence |
| `frontier` | the instant before which every event has come | EMIT FINAL, and `emits_final` |
| `Wiring.at_target` | the instant up to which a query may emit | a query with a quality target |
| arrival (`gathering`) | the arrival of events | corrections that are gathered (EMIT SLACK) |
| `barriers` | the frontier | runs whose SKIP decides more, for the next checkpoint |

EMIT SLACK: if a tenth of a query's events is late, correcting at once would evaluate a unit again
and again. So late events are gathered, and each unit is evaluated once. The wait is a share of the
window, equal to the share of late events, and at most the largest lateness seen. If fewer events
are late, a unit is corrected at once. Events in order never wait.
"""

from __future__ import annotations

from typing import Final

from topology.model.kept import INT, Kept, Shape
from topology.model.timers import Timers
from topology.pattern.run.unit import BEFORE_ALL_TIME, MatchUnit, UnitOwner

HALF_LIFE_EVENTS: Final = 10_000
FEW: Final = 10
"""Corrections are made at once if fewer than one event in this many is late."""


LATENESS: Final = Shape("pattern.lateness", 1, _events=INT, _late=INT, _largest_ns=INT)


class Lateness(Kept):
    """The number of events of one query, and of late ones; older events count half."""

    SHAPE = LATENESS

    def __init__(self) -> None:
        self._events = 0
        self._late = 0
        self._largest_ns = 0

    def count(self, late_by_ns: int) -> None:
        """Count an event; `late_by_ns` is 0 if it came in order."""
        self._events += 1
        if late_by_ns > 0:
            self._late += 1
            self._largest_ns = max(self._largest_ns, late_by_ns)
        if self._events >= 2 * HALF_LIFE_EVENTS:
            self._events //= 2
            self._late //= 2

    def wait_ns(self, within_ns: int) -> int:
        """Return how long to gather corrections; 0 means to correct at once."""
        if self._late * FEW < max(self._events, 1):
            return 0
        return min(self._late * within_ns // self._events, self._largest_ns)


class Agenda:
    """The timers of a level, and its gathered corrections.

    Attributes:
        gathering: The runs with corrections that are gathered.
        quiet_ns: The frontier may move up to this instant without any effect.
    """

    def __init__(self) -> None:
        self.events: Timers[MatchUnit] = Timers()
        self.frontier: Timers[MatchUnit] = Timers()
        self.barriers: Timers[UnitOwner] = Timers()
        self.gathering: dict[UnitOwner, None] = {}
        self.quiet_ns = BEFORE_ALL_TIME

    @property
    def next_ns(self) -> int:
        """The instant up to which no timer of the events or of the frontier is due."""
        return min(self.events.next_ns, self.frontier.next_ns)

    def next_arrival_ns(self) -> int:
        """Return the time at which the first of the gathered corrections is due."""
        return min(run.gathered.due_ns for run in self.gathering)

    def take_gathered(self, due_ns: int, frontier_ns: int) -> list[MatchUnit]:
        """Take and evaluate the gathered units of the runs that are due.

        A run is also taken if a frontier at `frontier_ns` would decide something of it.
        """
        found = []
        for run in list(self.gathering):
            if run.gathered.due_ns <= due_ns or run.gathered.since_ns < frontier_ns:
                del self.gathering[run]
                found += run.evaluate_gathered()
        return found
