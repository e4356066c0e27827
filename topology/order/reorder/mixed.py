"""REORDER under `without_seq: by_time`, for sources with and without numbers in one stream.

A source is ordered by its numbers (`topology.order.reorder.operator`) or by its own time
(`topology.order.reorder.by_time`). Its first event decides between the two, until the source is
forgotten. An event of the other kind cannot be put in order, so it is a dead letter, reason
`seq_mixed`.

An event without a number arrives with a negative `seq`, the complement (`~`) of its position in the
log. This operator sets its `seq` to that position.

Guarantees
* The emitted events and reports of a source are the same as in a stream with only its kind.
* Emitted events and reports of one instant are in the order of the events, then of the operators.

The bounds in the settings apply separately to the sources with numbers and to those without.

The MERGE that follows is the one for sources without numbers (`topology.order.merge.unnumbered`).
For it, an emitted event does not imply that no event of its source is buffered any more. For
sources with numbers, this operator therefore adds `unblocked` after the event.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final

from topology.base.composite import Composite, CompositePart
from topology.base.event import BLOCKED, DEAD, UNBLOCKED, Event, at_ns
from topology.base.operator import Figures, Plain
from topology.base.outcome import Step, make_dead_letter
from topology.order.reorder.by_time import ReorderByTime
from topology.order.reorder.operator import Reorder
from topology.order.reorder.shell import BUFFER

BY_TIME: Final = "time-"
"""The prefix of the state keys of sources without numbers.

The keys of the others are the same as in a stream in which all sources have numbers.
"""
UNLIKE_THE_FIRST: Final = (
    "its source numbers only some events, and it differs from the first; number all events or none"
)


class MixedReorder(Composite):
    """The operator for a stream with both kinds of sources.

    `numbered` and `timed` must be new, and no other operator may use them.
    """

    def __init__(self, numbered: Reorder, timed: ReorderByTime) -> None:
        super().__init__([CompositePart("", numbered, ""), CompositePart("", timed, BY_TIME)])
        self._numbered = numbered
        self._timed = timed
        # The sources with numbers that are blocked, as far as MERGE knows.
        self._blocked: set[str] = set()
        # The saved state that is being restored; empty at all other times.
        self._before: Mapping[str, Plain] = {}

    def begin_midstream(self) -> None:
        """Begin in the middle of the stream; see `Reorder.begin_midstream`."""
        self._numbered.begin_midstream()

    def on_batch(self, events: Sequence[Event], now_ns: int) -> Step:
        step = Step(now_ns)
        for (instant_ns, is_timed), group in groupby(events, key=_kind_of):
            # Both parts advance here, so that the order does not depend on the batches.
            self._advance_time(instant_ns - 1, step)
            batch = [event for event in group if self._takes(event, is_timed, step)]
            part = self._timed if is_timed else self._numbered
            self._add_step(part.on_batch(batch, instant_ns), step)
        self._advance_time(now_ns - 1, step)
        return _sort_step(step)

    def on_time(self, now_ns: int) -> Step:
        step = Step(now_ns)
        self._advance_time(now_ns, step)
        return _sort_step(step)

    def on_end(self, now_ns: int) -> Step:
        step = self.on_time(now_ns)
        for part in self._parts:
            self._add_step(part.operator.on_end(now_ns), step)
        return _sort_step(step)

    def _advance_time(self, now_ns: int, step: Step) -> None:
        for part in self._parts:
            self._add_step(part.operator.on_time(now_ns), step)

    def _takes(self, event: Event, is_timed: bool, step: Step) -> bool:
        """Return whether the event is the first of its source or of the same kind as the first.

        If not, report it as a dead letter, unless it is one already. A dead letter is passed on
        only if its source has numbers.
        """
        if not (self._numbered if is_timed else self._timed).has_source(event.source):
            event.seq = ~event.seq if is_timed else event.seq
            return True
        if event.kind != DEAD:
            step.reports.append(make_dead_letter(event, event.at_ns, "seq_mixed", UNLIKE_THE_FIRST))
        return False

    def _add_step(self, said: Step, step: Step) -> None:
        step.add_outcomes(said)
        for event in said.released:
            step.released.append(event)
            if event.kind == BLOCKED and self._numbered.has_source(event.source):
                self._blocked.add(event.source)
            elif event.source in self._blocked and not event.late:
                self._blocked.discard(event.source)
                if event.kind != UNBLOCKED:
                    place = event.source, event.epoch, event.seq, 0, event.at_ns
                    step.released.append(Event(event.stream, *place, kind=UNBLOCKED))

    # -- Diagnosis ---------------------------------------------------------------------------------

    def figures(self) -> Figures:
        numbered, timed = self._numbered.figures(), self._timed.figures()
        return timed | {name: n + timed.get(name, 0) for name, n in numbered.items()}

    def explain(self) -> dict[str, Any]:
        waiting = [*self._numbered.explain()["waiting"], *self._timed.explain()["waiting"]]
        return {**self.figures(), "waiting": sorted(waiting, key=lambda each: str(each["source"]))}

    def locate(self, source: str, epoch: int, seq: int) -> dict[str, Plain] | None:
        part = self._timed if self._timed.has_source(source) else self._numbered
        return part.locate(source, epoch, seq)

    # -- State -------------------------------------------------------------------------------------

    def prefix_of(self, key: str) -> str:
        return BY_TIME if key.startswith(BY_TIME) else ""

    def holders_of(self, event: Event) -> Sequence[CompositePart]:
        event.seq = max(event.seq, ~event.seq)
        is_timed = BY_TIME + BUFFER + event.source in self._before
        return self._parts[is_timed : is_timed + 1]

    def restoring(self, state: Mapping[str, Plain], held: Sequence[Event]) -> Iterator[int]:
        self._before = state
        yield from super().restoring(state, held)
        self._before = {}
        self._blocked = set(self._numbered.list_blocked())


def _kind_of(event: Event) -> tuple[int, bool]:
    return event.at_ns, event.seq < 0


def _sort_step(step: Step) -> Step:
    step.released.sort(key=at_ns)
    step.reports.sort(key=at_ns)
    return step
