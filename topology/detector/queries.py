"""All detectors of a stream as one operator. An event is held, beyond letting it pass, as long as
one of them may go back behind it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from topology.detector.levels import Levels, levels_of
from topology.detector.operator import FOUND, Detecting
from topology.model.event import Event, at_ns
from topology.model.outcome import Step
from topology.model.result import Finding, Result
from topology.query.queries import KeepingQueries


class DetectorQueries(KeepingQueries[Detecting]):
    def __init__(self, detecting: Sequence[Detecting], position: int) -> None:
        super().__init__(detecting, position)
        self._detecting = list(detecting)
        self._runners[:] = levels_of(detecting)
        self._listens = {each.query for query in detecting for each in query.inputs.reads}
        self._read_events: list[Event] = []

    @property
    def is_ahead(self) -> bool:
        """Events come as MERGE accepts them, with its marks."""
        return any(each.inputs.is_ahead for each in self._detecting)

    def overhear(self, found: Sequence[Finding]) -> None:
        """Windows and matches that a detector reads; each is an event of the instant in which it
        was found."""
        for each in found:
            if each.query in self._listens and isinstance(each, Result):
                event = Event(each.stream, "", 0, 0, 0, each.at_ns, value=each, kind=FOUND)
                self._read_events.append(event)

    def on_batch(self, events: Sequence[Event], now_ns: int) -> Step:
        """No ramp goes beyond the instant of a result that a detector reads."""
        if not self._read_events:
            return super().on_batch(events, now_ns)
        step = Step(now_ns, list(events))
        both = sorted([*events, *self._read_events], key=at_ns)
        self._read_events = []
        self._climbed(both, step)
        step.results += self._found((), now_ns)
        step.results.sort(key=at_ns)
        return self._finish(step)

    def items_cost(self, step_ns: int, others_ppm: int) -> None:
        """See `Detecting`."""
        for each in self._detecting:
            each.load.items_cost(step_ns, others_ppm)

    @property
    def items(self) -> int:
        counts = [each.unit.counts for each in self._detecting]
        return sum(each.processed + each.replayed for each in counts)

    def restoring(self, state: Mapping[str, Any], held: Iterable[Event]) -> Iterator[int]:
        yield from super().restoring(state, held)
        for each in self._runners:
            if isinstance(each, Levels):
                each.restored()
