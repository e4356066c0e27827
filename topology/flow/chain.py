"""Operators one behind the other: a chain is an operator itself.

What one operator lets go is the batch of the next, at the time up to which the first
has spoken. Outcomes stand in the order of their instant, then of the chain.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from topology.model.event import Event
from topology.model.operator import TURN, Changes, Figures, Operator, State, StepByStep
from topology.model.outcome import Report, Step
from topology.model.result import Finding


class Chain(StepByStep):
    """`operators`: (name, operator) in order; the names prefix the keys of the state.

    The operators mark the events they hold with their place, counted from `first_place`.
    """

    def __init__(self, operators: Sequence[tuple[str, Operator]], first_place: int = 1) -> None:
        self._first_place = first_place
        self._names = [name for name, _ in operators]
        self._operators = [operator for _, operator in operators]
        self.moved: list[Event] | None = None
        """Where it is a list: what passed from one operator to the next since it was
        last emptied, for a driver that keeps book of who holds what."""

    def operator(self, name: str) -> Any:
        """The operator of that name, for its figures; KeyError if there is none."""
        if name not in self._names:
            raise KeyError(name)
        return self._operators[self._names.index(name)]

    @property
    def names(self) -> list[str]:
        return list(self._names)

    def on_batch(self, events: Sequence[Event], now_ns: int) -> Step:
        reports: list[Report] = []
        results: list[Finding] = []
        for operator in self._operators:
            if self.moved is not None and operator is not self._operators[0]:
                self.moved += events
            step = operator.on_batch(events, now_ns)
            reports += step.reports
            results += step.results
            events, now_ns = step.released, step.now_ns
        reports.sort(key=instant)
        results.sort(key=instant)
        return Step(now_ns, list(events), reports, results)

    def on_time(self, now_ns: int) -> Step:
        first = self._operators[0].on_time(now_ns)
        return self._pass_on(first, end=False)

    def on_end(self, now_ns: int) -> Step:
        first = self._operators[0].on_end(now_ns)
        return self._pass_on(first, end=True)

    def _pass_on(self, step: Step, end: bool) -> Step:
        reports = step.reports
        results = step.results
        released = step.released
        now_ns = step.now_ns
        for operator in self._operators[1:]:
            if self.moved is not None:
                self.moved += released
            taken = operator.on_batch(released, now_ns)
            then = operator.on_end(now_ns) if end else operator.on_time(now_ns)
            reports = reports + taken.reports + then.reports
            results = results + taken.results + then.results
            released = taken.released + then.released
            now_ns = then.now_ns
        reports.sort(key=instant)
        results.sort(key=instant)
        return Step(now_ns, released, reports, results)

    def next_deadline_ns(self) -> int | None:
        due = [operator.next_deadline_ns() for operator in self._operators]
        return min((ns for ns in due if ns is not None), default=None)

    def explain(self) -> dict[str, Any]:
        """What each operator that holds events waits for, for people."""
        return {
            name: explained
            for name, operator in zip(self._names, self._operators, strict=True)
            if (explained := operator.explain()) is not None
        }

    def figures(self) -> Figures:
        """Those of all operators that have some, as `<operator>_<figure>`."""
        return {
            f"{name}_{figure}": value
            for name, operator in zip(self._names, self._operators, strict=True)
            for figure, value in operator.figures().items()
        }

    def let_go(self) -> list[Event]:
        gone: list[Event] = []
        for operator in self._operators:
            gone += operator.let_go()
        return gone

    def close(self) -> None:
        for operator in self._operators:
            operator.close()

    def snapshot(self) -> State:
        return self._prefixed([operator.snapshot() for operator in self._operators])

    def changes(self) -> Changes:
        return self._prefixed([operator.changes() for operator in self._operators])

    def _prefixed(self, states: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            f"{name}/{key}": value
            for name, state in zip(self._names, states, strict=True)
            for key, value in state.items()
        }

    def held(self) -> Iterable[Event]:
        for operator in self._operators:
            yield from operator.held()

    def waiting(self) -> Iterable[Event]:
        for operator in self._operators:
            yield from operator.waiting()

    def restoring(self, state: Mapping[str, Any], held: Iterable[Event]) -> Iterator[int]:
        """See `topology.model.operator`."""
        states: dict[str, dict[str, Any]] = {name: {} for name in self._names}
        for key, value in state.items():
            name, _, rest = key.partition("/")
            states[name][rest] = value
        by_place: dict[int, list[Event]] = {}
        for number, event in enumerate(held):
            by_place.setdefault(event.held_by, []).append(event)
            if not number % TURN:
                yield 0
        for place, (name, operator) in enumerate(
            zip(self._names, self._operators, strict=True), start=self._first_place
        ):
            yield from operator.restoring(states[name], by_place.get(place, []))


def instant(told: Report | Finding) -> int:
    return told.at_ns
