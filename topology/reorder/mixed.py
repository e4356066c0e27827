"""REORDER under `without_seq: by_time`: sources with numbers beside sources without, in one stream.

A source is put in order by its numbers (`topology.reorder.operator`) or by its own time
(`topology.reorder.by_time`), whichever its first event calls for, until it is forgotten. An event
of the other kind is dead, reason `seq_mixed`: its place among the others of its source is unknown.

An event without a number comes with a `seq` below 0, the complement of its place in the log. It is
the place itself from here on.

Guarantees
* What leaves of a source, and what is reported of it, is what a stream of its kind alone would
  give, in which all other sources are of that kind.
* What is said at one instant is in the order of the events, then that of the operators.

Bounds: those of the settings, once for the sources with numbers and once for those without.

MERGE behind it is that of sources without numbers (`topology.merge.by_time`): an event that leaves
does not say that none of its source waits any more. For sources with numbers `unblocked` is put
behind it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final

from topology.model.composite import Composite, CompositePart
from topology.model.event import BLOCKED, DEAD, UNBLOCKED, Event, at_ns
from topology.model.operator import Figures, Plain
from topology.model.outcome import Step, dead_letter
from topology.reorder.by_time import BUFFER, ReorderByTime
from topology.reorder.operator import Reorder

BY_TIME: Final = "time-"
"""Begins the keys of sources without numbers; the others are as where all have numbers."""
UNLIKE_THE_FIRST: Final = (
    "its source numbers some events and not others, and it is unlike the first; number all or none"
)


class MixedReorder(Composite):
    """`numbered` and `timed` are fresh, and this operator's own."""

    def __init__(self, numbered: Reorder, timed: ReorderByTime) -> None:
        super().__init__([CompositePart("", numbered, ""), CompositePart("", timed, BY_TIME)])
        self._numbered = numbered
        self._timed = timed
        self._blocked: set[str] = set()  # with numbers; MERGE knows that events of theirs wait here
        self._before: Mapping[str, Plain] = {}  # the state, while it is restored

    def begin_amid(self) -> None:
        """See `Reorder.begin_amid`."""
        self._numbered.begin_amid()

    def on_batch(self, events: Sequence[Event], now_ns: int) -> Step:
        step = Step(now_ns)
        for (instant_ns, is_timed), group in groupby(events, key=_kind):
            self._pass(instant_ns - 1, step)  # What both do in between has one order, however cut.
            batch = [event for event in group if self._takes(event, is_timed, step)]
            part = self._timed if is_timed else self._numbered
            self._add(part.on_batch(batch, instant_ns), step)
        self._pass(now_ns - 1, step)
        return _in_order(step)

    def on_time(self, now_ns: int) -> Step:
        step = Step(now_ns)
        self._pass(now_ns, step)
        return _in_order(step)

    def on_end(self, now_ns: int) -> Step:
        step = self.on_time(now_ns)
        for part in self._parts:
            self._add(part.operator.on_end(now_ns), step)
        return _in_order(step)

    def _pass(self, now_ns: int, step: Step) -> None:
        for part in self._parts:
            self._add(part.operator.on_time(now_ns), step)

    def _takes(self, event: Event, is_timed: bool, step: Step) -> bool:
        """Whether it is of the kind of its source, or the first of it. A dead letter has a place
        among numbers alone."""
        if not (self._numbered if is_timed else self._timed).knows(event.source):
            event.seq = ~event.seq if is_timed else event.seq
            return True
        if event.kind != DEAD:
            step.reports.append(dead_letter(event, event.at_ns, "seq_mixed", UNLIKE_THE_FIRST))
        return False

    def _add(self, said: Step, step: Step) -> None:
        step.add_found(said)
        for event in said.released:
            step.released.append(event)
            if event.kind == BLOCKED and self._numbered.knows(event.source):
                self._blocked.add(event.source)
            elif event.source in self._blocked and not event.late:
                self._blocked.discard(event.source)
                if event.kind != UNBLOCKED:
                    place = event.source, event.epoch, event.seq, 0, event.at_ns
                    step.released.append(Event(event.stream, *place, kind=UNBLOCKED))

    # -- for people --------------------------------------------------------------------------------

    def figures(self) -> Figures:
        timed = self._timed.figures()
        return {name: n + timed.get(name, 0) for name, n in self._numbered.figures().items()}

    def explain(self) -> dict[str, Any]:
        waiting = [*self._numbered.explain()["waiting"], *self._timed.explain()["waiting"]]
        return {**self.figures(), "waiting": sorted(waiting, key=lambda each: str(each["source"]))}

    def locate(self, source: str, epoch: int, seq: int) -> dict[str, Plain] | None:
        part = self._timed if self._timed.knows(source) else self._numbered
        return part.locate(source, epoch, seq)

    # -- state -------------------------------------------------------------------------------------

    def prefix_of(self, key: str) -> str:
        return BY_TIME if key.startswith(BY_TIME) else ""

    def takers(self, event: Event) -> Sequence[CompositePart]:
        event.seq = max(event.seq, ~event.seq)
        is_timed = BY_TIME + BUFFER + event.source in self._before
        return self._parts[is_timed : is_timed + 1]

    def restoring(self, state: Mapping[str, Plain], held: Sequence[Event]) -> Iterator[int]:
        self._before = state
        yield from super().restoring(state, held)
        self._before = {}
        self._blocked = set(self._numbered.blocked())


def _kind(event: Event) -> tuple[int, bool]:
    return event.at_ns, event.seq < 0


def _in_order(step: Step) -> Step:
    step.released.sort(key=at_ns)
    step.reports.sort(key=at_ns)
    return step
