"""Runs an operator for each lane of a task, and passes their outputs on in one order.

A *lane* is one input partition of a task (`Event.lane`). REORDER and CLOCK keep the state of each
lane apart, as they do in a stage that reads one partition. So their bounds, and the waits that they
learn, do not depend on which lanes share a task. MERGE and the queries read all lanes.

The alignment before this operator releases events in the order (arrival, lane, offset). So time is
the same in all lanes. Outputs are in the order of their instant, then of the lane, and do not
depend on the batches. A lane without events is called only when something is due in it.

Cost: that of the operators, O(events) for each batch, and O(lanes) for each call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from topology.answer.query.queries import combine_figures
from topology.base.composite import Composite, CompositePart
from topology.base.event import Event, at_ns
from topology.base.operator import Figures, Operator, Plain
from topology.base.outcome import Step


class ByLane(Composite):
    """One operator for each lane that can have events of the stream, by the lane's number.

    With `build`, a lane that has none gets its operator with its first event.
    """

    def __init__(
        self,
        operators: Mapping[int, Operator],
        build: Callable[[], Operator | None] | None = None,
    ) -> None:
        parts = {lane: CompositePart(f"{lane}", it, f"{lane}/") for lane, it in operators.items()}
        super().__init__([*parts.values()])
        self._by_lane = parts
        self._build = build
        self.operators = dict(operators)

    def _begin(self, lanes: Iterable[int]) -> None:
        """Build the operators of these lanes, and keep all in the order of the lanes."""
        for lane in lanes:
            operator = None if self._build is None else self._build()
            assert operator is not None, "an event of a lane that cannot have it"
            self.operators[lane] = operator
            self._by_lane[lane] = CompositePart(f"{lane}", operator, f"{lane}/")
        self.operators = dict(sorted(self.operators.items()))
        self._parts = [self._by_lane[lane] for lane in self.operators]

    def on_batch(self, events: Sequence[Event], now_ns: int) -> Step:
        batches: dict[int, list[Event]] = {}
        for event in events:
            batch = batches.get(event.lane)
            if batch is None:
                batches[event.lane] = [event]
            else:
                batch.append(event)
        if new := batches.keys() - self.operators.keys():
            self._begin(new)
        steps: list[Step] = []
        for lane, operator in self.operators.items():
            batch = batches.get(lane)
            if batch is None:
                due_ns = operator.next_deadline_ns()
                if due_ns is None or due_ns >= now_ns:
                    continue
                batch = []
            steps.append(self._set_lane(lane, operator.on_batch(batch, now_ns)))
        return _combine(steps, now_ns)

    def on_time(self, now_ns: int) -> Step:
        steps = []
        for lane, operator in self.operators.items():
            due_ns = operator.next_deadline_ns()
            if due_ns is not None and due_ns <= now_ns:
                steps.append(self._set_lane(lane, operator.on_time(now_ns)))
        return _combine(steps, now_ns)

    def on_end(self, now_ns: int) -> Step:
        ended = [self._set_lane(lane, it.on_end(now_ns)) for lane, it in self.operators.items()]
        return _combine(ended, now_ns)

    def _set_lane(self, lane: int, step: Step) -> Step:
        """Note the lane in the events that the operator itself has made."""
        if lane:
            for event in step.released:
                event.lane = lane
        return step

    # -- For people and drivers --------------------------------------------------------------------

    def figures(self) -> Figures:
        return combine_figures(operator.figures() for operator in self.operators.values())

    def counts_of(self, source: str) -> Figures:
        return combine_figures(operator.counts_of(source) for operator in self.operators.values())

    def explain(self) -> dict[str, Any]:
        """Return the figures of all lanes together, and the lists of what waits, joined."""
        found: dict[str, Any] = {}
        for operator in self.operators.values():
            for name, value in (operator.explain() or {}).items():
                found[name] = found[name] + value if isinstance(found.get(name), list) else value
        return {**found, **self.figures()}

    def locate(self, source: str, epoch: int, seq: int) -> dict[str, Any] | None:
        """Return the answer of the first lane that knows the source."""
        answers = (each.locate(source, epoch, seq) for each in self.operators.values())
        return next((each for each in answers if each is not None), None)

    # -- State -------------------------------------------------------------------------------------

    def restoring(self, state: Mapping[str, Plain], held: Sequence[Event]) -> Iterator[int]:
        """Restore the lanes; a state of a single lane, without prefixes, is that of the first."""
        first = self._parts[0].prefix
        known = {part.prefix for part in self._parts}
        alone = {key for key in state if self.prefix_of(key) not in known}
        laned = {first + key if key in alone else key: value for key, value in state.items()}
        yield from super().restoring(laned, held)
        self._stale |= dict.fromkeys(alone)

    def prefix_of(self, key: str) -> str:
        return key[: key.find("/") + 1]

    def holders_of(self, event: Event) -> Sequence[CompositePart]:
        return [self._by_lane[event.lane]]


def lanes_in(operator: Operator) -> Sequence[tuple[str, Operator]]:
    """Return the operator of each lane, with the prefix of its state's keys.

    An operator that is not by lane is returned itself, with no prefix.
    """
    if not isinstance(operator, ByLane):
        return [("", operator)]
    return [(f"{lane}/", each) for lane, each in operator.operators.items()]


def _combine(steps: Sequence[Step], now_ns: int) -> Step:
    """Return the steps of the lanes as one, in the order of the instants, then of the lanes."""
    if len(steps) == 1:
        return steps[0]
    found = Step(now_ns)
    for step in steps:
        found.add(step)
    found.now_ns = now_ns
    found.released.sort(key=at_ns)
    found.reports.sort(key=at_ns)
    return found
