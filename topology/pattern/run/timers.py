"""What waits for time in an engine: units for an instant, and corrections that are gathered.

A unit waits for the clock of the events, for the frontier, or for what its query may emit
(`quality`): each has timers of its own (`topology.model.timers`). A unit is looked at again when
its first instant has come, and is armed then for the next.
"""

from __future__ import annotations

from topology.model.timers import Timers
from topology.pattern.run.emit import MatchEmitter
from topology.pattern.run.ledger import BEFORE_ALL_TIME, MatchUnit, Now, UnitOwner


class Waits:
    """`clock` and `frontier`: the timers of units that wait for these. `gathering`: runs with
    corrections that are gathered (EMIT SLACK). `quiet_ns`: nothing happens before the frontier
    passes it."""

    def __init__(self, now: Now, emitter: MatchEmitter) -> None:
        self._now = now
        self._emitter = emitter
        self.clock: Timers[MatchUnit] = Timers()
        self.frontier: Timers[MatchUnit] = Timers()
        self.gathering: dict[UnitOwner, None] = {}
        self.quiet_ns = BEFORE_ALL_TIME

    def look_again(self, timers: Timers[MatchUnit], until_ns: int) -> None:
        """At the units that waited for an instant before that one."""
        if timers.next_ns < until_ns:
            for unit in timers.due(until_ns):
                unit.owner.look_again(unit)

    def emit(self, at_ns: int) -> None:
        """What has changed, with what waited for the clock of the events, so that what is in doubt
        now is emitted once."""
        self.look_again(self.clock, self._now.clock_ns)
        self._emitter.flush(at_ns)

    @property
    def next_ns(self) -> int:
        """No unit is looked at again before the frontier passes it."""
        return min(self.clock.next_ns, self.frontier.next_ns)

    def next_deadline_ns(self) -> int | None:
        """When corrections that are gathered are due."""
        return min((run.gathered.due_ns for run in self.gathering), default=None)

    def gather(self, run: UnitOwner) -> None:
        """The run has corrections that wait."""
        self.gathering[run] = None

    def correct_until(self, now_ns: int) -> None:
        """Nothing came up to and including `now_ns`: correct what was gathered until then, each at
        its own time."""
        while (due_ns := self.next_deadline_ns()) is not None and due_ns <= now_ns:
            for run in [run for run in self.gathering if run.gathered.due_ns == due_ns]:
                del self.gathering[run]
                run.emit(run.evaluate_gathered())
            self._emitter.flush(due_ns)

    def evaluate_before(self, frontier_ns: int) -> list[tuple[UnitOwner, list[MatchUnit]]]:
        """What of the gathered is decided with the frontier there, evaluated, not emitted yet."""
        corrected = []
        for run in [run for run in self.gathering if run.gathered.since_ns < frontier_ns]:
            del self.gathering[run]
            corrected.append((run, run.evaluate_gathered()))
        return corrected
