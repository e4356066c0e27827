"""What of the found a run may emit now, and when it is to look again.

Source: patterns.md 4.4. A match is *visible* once it may be emitted: at once (EMIT EAGER), but with
a negation at its end only when the clock has passed the end of its window; or when nothing can
change it any more (EMIT FINAL). With a quality target it is visible once it is decided before that.

SKIP looks at all that is visible, so it has to be told when time alone shows more (`uncovered`).

Proved by: tests/topology/pattern/test_engine_laws.py, tests/topology/pattern/test_promise.py
"""

from __future__ import annotations

from heapq import heappop, heappush

from topology.pattern.run.context import RunContext
from topology.pattern.run.ledger import FoundMatch, Now, Unit
from topology.pattern.run.timers import Asker, UnitTimers
from topology.pattern.run.wiring import Wiring
from topology.pattern.store.entry import Key


class Visibility:
    """For one run, which `asker` is: it sets timers."""

    __slots__ = (
        "_again",
        "_asker",
        "_clock",
        "_frontier",
        "_hidden",
        "_query",
        "_skips",
        "_wiring",
        "emits_final",
    )

    def __init__(self, wiring: Wiring, context: RunContext, asker: Asker) -> None:
        self._wiring = wiring
        self._query = wiring.query
        self._clock = context.clock
        self._frontier = context.frontier
        self._asker = asker
        self.emits_final = wiring.query.name in context.emits_final
        self._skips = wiring.query.shape.skips
        self._hidden: list[tuple[int, Key]] = []
        self._again: dict[Key, None] = {}

    def of(self, unit: Unit, now: Now) -> dict[str, FoundMatch]:
        """What is visible of the unit; sets a timer for when there will be more."""
        query = self._query.query
        if self._wiring.target_ns is not None:
            visible = self._before_target(unit, self._wiring.target_ns)
        elif query.emit == "final":
            visible = {i: f for i, f in unit.found.items() if f.decided_ns < now.floor_ns}
        elif self._query.shape.has_end_negation:
            visible = {}
            for id_, found in unit.found.items():
                over_ns = found.match.first.time_ns + self._query.within_ns
                if over_ns < now.clock_ns:
                    visible[id_] = found
                else:
                    self._hide(unit, over_ns)
                    self._look_again(unit, over_ns, self._clock)
        else:
            visible = unit.found
        if self.emits_final or query.emit == "final":
            for found in unit.found.values():
                if found.decided_ns >= now.floor_ns:
                    if query.emit == "final":
                        self._hide(unit, found.decided_ns)
                    self._look_again(unit, found.decided_ns + query.amend_ns, self._frontier)
        return visible

    def _before_target(self, unit: Unit, target_ns: int) -> dict[str, FoundMatch]:
        """What is decided before that instant, and what was emitted when it was."""
        visible = {}
        for id_, found in unit.found.items():
            emitted = unit.emitted.get(id_)
            if found.decided_ns < target_ns or (emitted is not None and emitted.live):
                visible[id_] = found
            else:
                self._hide(unit, found.decided_ns)
                self._look_again(unit, found.decided_ns, self._wiring.at_target)
        return visible

    def emitted(self, unit: Unit) -> None:
        """Something of it was emitted, or taken back."""
        if self._skips and self._wiring.target_ns is not None:
            self._again[unit.anchor.key] = None  # what was emitted stays visible, else it waits

    def uncovered(self, now: Now) -> list[Key]:
        """The units of which something else may be visible now than when it was asked last, no
        event having changed them."""
        until_ns = now.clock_ns
        if self._wiring.target_ns is not None:
            until_ns = self._wiring.target_ns
        elif self._query.query.emit == "final":
            until_ns = now.floor_ns
        found, self._again = self._again, {}
        while self._hidden and self._hidden[0][0] < until_ns:
            found[heappop(self._hidden)[1]] = None
        return list(found)

    def _hide(self, unit: Unit, until_ns: int) -> None:
        """Something of the unit is not visible until the line of time it waits for is there."""
        if self._skips:
            heappush(self._hidden, (until_ns, unit.anchor.key))

    def _look_again(self, unit: Unit, ns: int, timers: UnitTimers) -> None:
        timer = (ns, timers)
        if unit.timers is None:
            unit.timers = set()
        if timer not in unit.timers:
            unit.timers.add(timer)
            timers.set(ns, self._asker, unit.anchor.key)
