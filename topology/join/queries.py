"""All join queries of a partition as one operator, over the events of several streams.

An event is held beyond letting it pass as long as one of the queries keeps it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from topology.join.operator import Join
from topology.model.event import Event
from topology.model.outcome import Step
from topology.model.ramp import climb, is_ramp, side_by_side
from topology.model.result import Finding
from topology.query.queries import KeepingQueries, instant_of


class JoinQueries(KeepingQueries[Join]):
    """`position` is its bit in `Event.held_by`."""

    def __init__(self, joins: Sequence[Join], position: int) -> None:
        super().__init__(joins, position)
        self._joins = list(joins)
        self._more: dict[int, int] = {}
        """How often an event is kept beyond once, by its identity."""
        self._unkept: list[Event] = []

    def on_batch(self, events: Sequence[Event], now_ns: int) -> Step:
        """Ramps of several streams are climbed side by side."""
        step = Step(now_ns, list(events))
        if any(map(is_ramp, events)):
            for ramps, between in side_by_side(events):
                for watermarks in climb(ramps, self.is_due) if ramps else ():
                    step.results += self._found(watermarks, watermarks[0].at_ns)
                if between:
                    step.results += self._found(between, between[-1].at_ns)
            events = ()
        step.results += self._found(events, now_ns)
        step.results.sort(key=instant_of)
        step.freed = self._freed()
        return step

    def _found(self, events: Sequence[Event], now_ns: int) -> list[Finding]:
        """Event by event where there are several queries, for each emits rows at once."""
        found: list[Finding] = []
        if len(self._joins) > 1:
            for event in events:
                found += super()._found([event], event.at_ns)
            events = ()
        found += super()._found(events, now_ns)
        self._settle()
        return found

    def _settle(self) -> None:
        for join in self._joins:
            for event in join.kept:
                if event.held_by & self._position:
                    self._more[id(event)] = self._more.get(id(event), 0) + 1
                event.held_by |= self._position
            join.kept.clear()
        for join in self._joins:
            for event in join.released:
                self._drop(event)
            join.released.clear()
        for join in self._joins:
            for event in join.marks.left:
                if not event.held_by & self._position:
                    join.marks.forget(event)
            join.marks.left.clear()

    def _drop(self, event: Event) -> None:
        more = self._more.pop(id(event), 0)
        if more > 1:
            self._more[id(event)] = more - 1
        if not more:
            event.held_by &= ~self._position
            self._unkept.append(event)
            for join in self._joins:
                join.marks.forget(event)

    def held(self) -> Iterable[Event]:
        return {id(event): event for join in self._joins for event in join.held()}.values()

    def _freed(self) -> list[Event]:
        freed, self._unkept = self._unkept, []
        return freed
