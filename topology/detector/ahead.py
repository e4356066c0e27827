"""Detectors that read before MERGE: they take events as they are accepted, and a MERGE of their own
says beside them how far it is certain.

    accepted events ─┬───────────────────────────────► detectors
                     └► MERGE (of twins) ─► W, C, what passes, what is rejected

It is the stream's MERGE with the stream's settings on the same input, so W, what is late and what
is final are what they are on the ordered topic, instant by instant. What it releases is passed to
the detectors as marks, in the order of their instants; an event that it rejects (`late: drop` or
`side`) is taken back in the same instant in which it came, before anything is read.

It costs a second MERGE for streams with such detectors, and holds no event twice: an event is held
as long as this MERGE or a detector wants it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from topology.answer.choice import Chosen
from topology.detector.operator import PASSED, REJECTED
from topology.detector.queries import DetectorQueries, Holding
from topology.model.composite import Composite, CompositePart
from topology.model.event import DATA, WATERMARK, Event, twin
from topology.model.operator import Changes, Figures, Operator, State
from topology.model.outcome import Late, Step

MERGED: Final = "merge/"
ASKED: Final = "asked/"
WAITING: Final = "waiting"
LATE: Final = "late"


class Ahead(Composite):
    """`merge` has the place 1: it holds twins, which nobody else sees."""

    keeps_passed = True

    def __init__(self, merge: Operator, queries: DetectorQueries, holding: Holding) -> None:
        super().__init__(
            [CompositePart("merge", merge, MERGED), CompositePart("asked", queries, ASKED)]
        )
        self._merge = merge
        self._queries = queries
        self._holding = holding
        self._waiting: dict[int, tuple[Event, Event]] = {}
        """By the identity of the twin: it, and the event."""

    def on_batch(self, events: Sequence[Event], now_ns: int) -> Step:
        twins = [twin(event) for event in events]
        for each in twins:
            each.held_by = 0
        merged = self._merge.on_batch(twins, now_ns)
        for event, other in zip(events, twins, strict=True):
            if other.held_by:
                self._waiting[id(other)] = (other, event)
                self._holding.hold(event)
        found = self._queries.on_batch(self._beside(events, merged), now_ns)
        return Step(now_ns, list(events), [], found.results, found.freed + self._holding.freed())

    def on_time(self, now_ns: int) -> Step:
        return self._after(self._merge.on_time(now_ns), now_ns)

    def _after(self, merged: Step, now_ns: int) -> Step:
        marks = self._beside((), merged)
        step = Step(now_ns)
        if marks:
            add_found(step, self._queries.on_batch(marks, marks[-1].at_ns))
        add_found(step, self._queries.on_time(now_ns))
        step.freed += self._holding.freed()
        return step

    def on_end(self, now_ns: int) -> Step:
        step = self.on_time(now_ns)  # the open instant, before what MERGE lets go at the end
        add_found(step, self._after(self._merge.on_end(now_ns), now_ns))
        add_found(step, self._queries.on_end(now_ns))
        return step

    def _beside(self, events: Sequence[Event], merged: Step) -> list[Event]:
        """All in the order of instants: what came, then what MERGE said of it."""
        marks: list[Event] = []
        for report in merged.reports:
            if isinstance(report, Late):
                other = report.event
                self._drop(other)
                other.kind, other.at_ns = REJECTED, report.at_ns
                marks.append(other)
        for other in merged.released:
            self._drop(other)
            if other.kind == DATA and not other.late:
                other.kind = PASSED
                marks.append(other)
            elif other.kind == WATERMARK:
                marks.append(other)
        if not marks:
            return list(events)
        return sorted([*events, *marks], key=_at_ns)

    def _drop(self, other: Event) -> None:
        waited = self._waiting.pop(id(other), None)
        if waited is not None:
            self._holding.drop(waited[1])

    # -- the rest of the contract ------------------------------------------------------------------

    def items_cost(self, step_ns: int, others_ppm: int = 0) -> None:
        """See `topology.detector.operator`."""
        self._queries.items_cost(step_ns, others_ppm)

    @property
    def items(self) -> int:
        return self._queries.items

    def chosen(self) -> list[Chosen]:
        return self._queries.chosen()

    def figures(self) -> Figures:
        return self._queries.figures()

    def explain(self) -> dict[str, Any]:
        return self._queries.explain()

    def held(self) -> Iterable[Event]:
        return list(self._holding.events())

    def snapshot(self) -> State:
        return super().snapshot() | self._waiting_state()

    def changes(self) -> Changes:
        return super().changes() | self._waiting_state()

    def _waiting_state(self) -> State:
        offsets = ranges([event.offset for _, event in self._waiting.values()])
        return {WAITING: offsets, LATE: self._held_late()}

    def _held_late(self) -> dict[str, list[int]]:
        """Which twins are late in MERGE, by cause: the events bear the marks of their records."""
        offsets: dict[str, list[int]] = {}
        for other, event in self._waiting.values():
            if other.late:
                offsets.setdefault(other.late, []).append(event.offset)
        return {cause: ranges(offsets[cause]) for cause in sorted(offsets)}

    def restoring(self, state: Mapping[str, Any], held: Iterable[Event]) -> Iterator[int]:
        events = list(held)
        for event in events:
            event.held_by &= ~self._holding.position
        offsets = in_ranges(state.get(WAITING, []))
        late: dict[int, str] = {}
        for cause, said in state.get(LATE, {}).items():
            late |= dict.fromkeys(in_ranges(said), cause)
        twins = []
        for event in events:
            if event.offset in offsets:
                other = twin(event)
                other.late = late.get(event.offset, "")
                twins.append(other)
                self._waiting[id(other)] = (other, event)
                self._holding.hold(event)
        self._merge.restore(_below(state, MERGED), twins)
        self._queries.restore(_below(state, ASKED), events)
        for event in self._holding.events():
            self._holding.mark(event)
        yield len(events)


def _below(state: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    begun = len(prefix)
    return {key[begun:]: value for key, value in state.items() if key.startswith(prefix)}


def add_found(step: Step, part: Step) -> None:
    step.results += part.results
    step.freed += part.freed


def ranges(offsets: Sequence[int]) -> list[int]:
    """The first of each stretch, and how many, one behind the other."""
    said: list[int] = []
    for offset in sorted(offsets):
        if said and said[-2] + said[-1] == offset:
            said[-1] += 1
        else:
            said += (offset, 1)
    return said


def in_ranges(said: Sequence[int]) -> set[int]:
    return {
        offset
        for at in range(0, len(said), 2)
        for offset in range(said[at], said[at] + said[at + 1])
    }


def _at_ns(event: Event) -> int:
    return event.at_ns
