"""What waits for time in a level: when to look at which unit again.

An entry is a hint: an instant of a clock, and a unit. Who takes a unit computes anew what may be
emitted of it, and arms it for the next instant.

| clock | what it follows | what waits for it |
| --- | --- | --- |
| `events` | the newest event or watermark | the end of an absence |
| `frontier` | the instant before which all has come | EMIT FINAL, and `finals` |
| `Wiring.at_target` | the instant up to which a query may emit | a query with a quality target |
| arrival (`gathering`) | the arrival of events | corrections that are gathered (EMIT SLACK) |
| `barriers` | the frontier | runs in which SKIP will have decided more, for the next checkpoint |

EMIT SLACK: where a tenth of a query's events come late, correcting at once would evaluate a unit
again and again. Late events are gathered then for the share of late events of a window, at most
for the largest lateness seen, and each unit is evaluated once. Where fewer are late, it is
corrected at once. Events in order never wait.
"""

from __future__ import annotations

from typing import Final

from topology.model.kept import INT, Kept, Shape
from topology.model.timers import Timers
from topology.pattern.run.unit import BEFORE_ALL_TIME, MatchUnit, UnitOwner

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


class Agenda:
    """What waits for time in a level.

    Attributes:
        gathering: The runs with corrections that are gathered.
        quiet_ns: The frontier may go so far, and nothing happens.
    """

    def __init__(self) -> None:
        self.events: Timers[MatchUnit] = Timers()
        self.frontier: Timers[MatchUnit] = Timers()
        self.barriers: Timers[UnitOwner] = Timers()
        self.gathering: dict[UnitOwner, None] = {}
        self.quiet_ns = BEFORE_ALL_TIME

    @property
    def next_ns(self) -> int:
        """The instant up to which no unit is to be looked at again, of events or the frontier."""
        return min(self.events.next_ns, self.frontier.next_ns)

    def next_arrival_ns(self) -> int:
        """Return when the first of the corrections that are gathered is due."""
        return min(run.gathered.due_ns for run in self.gathering)

    def take_gathered(self, due_ns: int, frontier_ns: int) -> list[MatchUnit]:
        """Take what is gathered of the runs that are due, or of which something will be decided
        with the frontier there, evaluated."""
        found = []
        for run in list(self.gathering):
            if run.gathered.due_ns <= due_ns or run.gathered.since_ns < frontier_ns:
                del self.gathering[run]
                found += run.evaluate_gathered()
        return found
