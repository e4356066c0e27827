"""Schedules the units of a level that must be looked at again later.

A timer has only an instant and a unit. When the timer is due, the unit's results are chosen again
(`decide`), which also sets the unit's next timer.

| clock | instant that it follows | units scheduled on it |
| --- | --- | --- |
| `events` | the newest event or watermark | waiting for the end of an absence |
| `frontier` | the instant before which all events have arrived | with EMIT FINAL or `emits_final` |
| `Wiring.at_target` | the instant up to which a query may emit | with a quality target |
| `barriers` | the frontier | runs whose barrier row (SKIP) may change |
"""

from __future__ import annotations

from topology.model.operator import NEVER
from topology.model.timers import Timers
from topology.pattern.run.unit import BEFORE_ALL_TIME, MatchUnit, UnitOwner


class Agenda:
    """The timers of a level.

    Attributes:
        events: The timers that follow the newest event or watermark.
        frontier: The timers that follow the frontier.
        barriers: The timers of the runs whose barrier row may change. They follow the frontier.
        arrival_ns: The arrival time at which the level has something to do; NEVER if there is none.
        quiet_ns: The instant up to which the frontier may move without any effect.
    """

    def __init__(self) -> None:
        self.events: Timers[MatchUnit] = Timers()
        self.frontier: Timers[MatchUnit] = Timers()
        self.barriers: Timers[UnitOwner] = Timers()
        self.arrival_ns = NEVER
        self.quiet_ns = BEFORE_ALL_TIME

    @property
    def next_ns(self) -> int:
        """The instant before which no timer in `events` or `frontier` is due."""
        return min(self.events.next_ns, self.frontier.next_ns)
