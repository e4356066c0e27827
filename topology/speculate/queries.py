"""All detectors of a stream as one operator. An event is held, beyond letting it pass, as long as
one of them may go back behind it.

Proved by: tests/topology/speculate/test_operator.py, tests/laws/test_laws.py
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from topology.model.event import Event
from topology.model.result import Finding
from topology.query.queries import KeepingQueries
from topology.speculate.operator import Detecting


class Holding:
    """Who holds what: events by how many hold them. `position` is the operator's place."""

    def __init__(self, position: int) -> None:
        self._position = position
        self._times: dict[int, int] = {}
        self._events: dict[int, Event] = {}
        self._gone: list[Event] = []

    def hold(self, event: Event) -> None:
        number = id(event)
        self._times[number] = self._times.get(number, 0) + 1
        self._events[number] = event
        event.held_by = self._position

    def mark(self, event: Event) -> None:
        """It is held, whatever its record says."""
        event.held_by = self._position

    def drop(self, event: Event) -> None:
        number = id(event)
        times = self._times.pop(number)
        if times > 1:
            self._times[number] = times - 1
            return
        del self._events[number]
        event.held_by = 0
        self._gone.append(event)

    def events(self) -> Iterable[Event]:
        return self._events.values()

    def let_go(self) -> list[Event]:
        gone, self._gone = self._gone, []
        return gone


class DetectorQueries(KeepingQueries[Detecting]):
    def __init__(self, detecting: Sequence[Detecting], holding: Holding) -> None:
        super().__init__(detecting)
        self._detecting = list(detecting)
        self._holding = holding

    def _found(self, events: Sequence[Event], now_ns: int) -> list[Finding]:
        found = super()._found(events, now_ns)
        self._settle()
        return found

    def items_cost(self, step_ns: int) -> None:
        """See `Detecting`."""
        for each in self._detecting:
            each.items_cost(step_ns)

    @property
    def items(self) -> int:
        return sum(each.items for each in self._detecting)

    def _settle(self) -> None:
        holding = self._holding
        for each in self._detecting:
            for event in each.kept:
                holding.hold(event)
            each.kept.clear()
        for each in self._detecting:
            for event in each.gone:
                holding.drop(event)
            each.gone.clear()

    def held(self) -> Iterable[Event]:
        return list(self._holding.events())

    def let_go(self) -> list[Event]:
        return self._holding.let_go()
