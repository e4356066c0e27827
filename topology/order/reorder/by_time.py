"""REORDER under `rule: time`: emits the events of each source in the order of its own time.

It is for sources that do not number their events. It replaces `topology.order.reorder.operator`
and is based on the same shell (`topology.order.reorder.shell`). Its duty to later operators is
also the same: it puts each source in sequence. It orders one source by its own timestamps, and
never compares two sources. Their clocks disagree until CLOCK has corrected them, and a wrong clock
harms only its own source. MERGE determines the order across sources, and waits for it.

Each source has its own order (`topology.order.reorder.time_buffer`) with its own waiting strategy.
Emitted events get new numbers in epoch 0. The first number is the position of the source's first
event in the log, and each further event adds one. So numbers rise with time, and later operators
work as usual. A late event that is emitted also takes the next number. A late event that is not
emitted keeps its position in the log as its number.

Guarantees
* Unmarked events of a source are emitted strictly in the order (time, number on arrival).
* No event waits longer than `max_wait`.
* An event below the last unmarked one of its source is late, with the cause `overtaken`.
* Gaps cannot be detected, so none is reported. MERGE therefore never treats a source as complete.
* If records have ids, an event whose id came within `id_memory` is a duplicate
  (`topology.order.reorder.ids`).

The control event `blocked` informs MERGE that events of the source are buffered here, and
`unblocked` that none is any more. An emitted event implies neither, unlike one with a sequence
number. So MERGE never passes an event that is buffered here, and waits for a silent source by its
delays as usual. A heartbeat or an end-of-stream marker is buffered and emitted like an event. A
dead letter has no effect here.

The bounds are `max_held` events per source, and `max_held_total` and `max_held_bytes` in all. If a
bound in all is exceeded, the source that is fullest by that bound emits the first eighth of its
buffered events. `overflows` counts these events.

Cost: O(log held) per event, and the cost of the strategy; O(sources) when a bound in all is
exceeded. Memory: buffered events, about 5 kB per source in order, up to 14 kB if its times scatter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from operator import attrgetter
from typing import Any, Final

from topology.answer.waiting.policy import SlackPolicy
from topology.answer.waiting.tail import OwnTail
from topology.base.event import BLOCKED, BYE, DATA, HEARTBEAT, UNBLOCKED, Event
from topology.base.location import NOT_COME, PASSED
from topology.base.operator import NEVER, Figures, Plain
from topology.base.outcome import Duplicate, Step
from topology.order.reorder.buffer import SourceBuffer, Totals
from topology.order.reorder.ids import RememberedIds
from topology.order.reorder.settings import ReorderConfig
from topology.order.reorder.shell import BUFFER, SOURCES, Shell
from topology.order.reorder.time_buffer import TimeBuffer, order_shape
from topology.state.saved import FLAG, INT, Shape
from topology.state.sources import SourceTable

BY_TIME: Final = Shape("reorder.by_time", 1, _now_ns=INT, _sources=SOURCES)
count_held: Final = attrgetter("held", "source")
bytes_held: Final = attrgetter("held_bytes", "source")
PUSHED_OUT: Final = 8
"""When room is needed, one in this many buffered events of the fullest source is emitted."""


@cache
def timed_shape(policy: Shape) -> Shape:
    """Return the saved form of a source whose waiting strategy has the form `policy`."""
    return Shape(
        "reorder.timed_source",
        1,
        next_number=INT,
        blocked=FLAG,
        last_arrival_ns=INT,
        _order=order_shape(policy),
    )


class TimedBuffer(SourceBuffer):
    """The buffer of a source that is ordered by time, with the number of its next event."""

    __slots__ = ("_order", "_overflows", "_stream", "_totals", "next_number")

    def __init__(self, source: str, order: TimeBuffer, stream: str, totals: Totals) -> None:
        super().__init__(source)
        self._order = order
        self._stream = stream
        self._totals = totals
        self._overflows = 0  # The overflows of `_order` that the totals already include.
        self.next_number = 0

    def take(self, event: Event, step: Step) -> None:
        self._number_emitted(self._order.on_batch((event,), event.at_ns), step)

    def deadline_ns(self) -> int:
        due_ns = self._order.next_deadline_ns()
        return NEVER if due_ns is None else due_ns

    def fire(self, now_ns: int, step: Step) -> None:
        self._number_emitted(self._order.on_time(now_ns), step)
        self._report_buffered(now_ns, step)

    def end(self, now_ns: int, step: Step) -> None:
        self._number_emitted(self._order.on_end(now_ns), step)
        self._report_buffered(now_ns, step)

    def emit_oldest(self, now_ns: int, step: Step) -> None:
        """Emit the first eighth of the buffered events, to make room."""
        said = Step(now_ns)
        self._order.emit_oldest(-(-self.held // PUSHED_OUT), now_ns, said)
        self._number_emitted(said, step)
        self._report_buffered(now_ns, step)

    def _number_emitted(self, said: Step, step: Step) -> None:
        """Assign numbers to the events emitted in `said`, and add all its results to `step`."""
        for event in said.released:
            event.epoch = 0
            event.seq = self.next_number
            self.next_number += 1
            self._totals.waited_ns += event.at_ns - event.arrival_ns
        step.released += said.released
        step.add_outcomes(said)
        self._count()

    def _count(self) -> None:
        held, size = len(self._order.heap), self._order.held_bytes
        self._totals.held += held - self.held
        self._totals.held_bytes += size - self.held_bytes
        self.held, self.held_bytes = held, size
        self._totals.overflows += self._order.overflows - self._overflows
        self._overflows = self._order.overflows

    def _report_buffered(self, now_ns: int, step: Step) -> None:
        """Inform MERGE if events of this source are now buffered here, or no longer are."""
        waits = self.held > 0
        if waits != self.blocked:
            self.blocked = waits
            kind = BLOCKED if waits else UNBLOCKED
            number = self.next_number
            step.released.append(Event(self._stream, self.source, 0, number, 0, now_ns, kind=kind))

    def waiting(self) -> Iterable[Event]:
        return self._order.iter_held()

    def explain(self) -> dict[str, Any]:
        since_ns = min(event.arrival_ns for event in self._order.iter_held())
        return {
            "source": self.source,
            "epoch": 0,
            "held": self.held,
            "later_epochs": [],
            "reason": "time",
            "missing": None,
            "since": since_ns,
            "deadline": since_ns + self._order.max_wait_ns,
            "strategy": self._order.explain(),
        }

    def buffer_again(self, held: list[Event]) -> None:
        self._order.buffer_again(held)
        self.is_open = self._order.is_instant_open
        self._count()


class ReorderByTime(Shell[TimedBuffer]):
    """The operator for sources without sequence numbers.

    `policy` creates the waiting strategy of a source; the default is `OwnTail`. An event is a dead
    letter if its time is more than `max_ahead_ns` ahead of its arrival; None allows any time.
    """

    def __init__(
        self,
        stream: str,
        config: ReorderConfig,
        policy: Callable[[], SlackPolicy] | None = None,
        max_ahead_ns: int | None = None,
    ) -> None:
        own = partial(OwnTail, config.miss_target_ppm, max_wait_ns=config.max_wait_ns)
        self._policy = make_policy = policy or own
        self._config = config
        timed = timed_shape(make_policy().SHAPE)
        totals = Totals()

        def make_buffer(source: str) -> TimedBuffer:
            order = TimeBuffer(
                make_policy(),
                config,
                max_ahead_ns=max_ahead_ns,
                keeps_control=True,
            )
            return TimedBuffer(source, order, stream, totals)

        bounds = config.max_sources, config.forget_after_ns
        self._ids = RememberedIds(config)
        self._max_ahead_ns = NEVER if max_ahead_ns is None else max_ahead_ns
        table = SourceTable(BUFFER, timed, make_buffer, *bounds)
        super().__init__(table, totals, BY_TIME, (self._ids,))

    def on_batch(self, events: Sequence[Event], now_ns: int) -> Step:
        step = Step(now_ns)
        for event in events:
            self._advance_time(event.at_ns, step)
            if event.kind in (DATA, HEARTBEAT, BYE):
                self._take(event, step)
        self._advance_time(now_ns, step)
        return step

    def on_end(self, now_ns: int) -> Step:
        step = self.on_time(now_ns)
        step.add(super().on_end(max(now_ns, self._now_ns)))
        return step

    def _take(self, event: Event, step: Step) -> None:
        buffer = self._table.get(event.source)
        if buffer is None:
            buffer = self._add_buffer(event)
        buffer.last_arrival_ns = event.at_ns
        self._sources.mark(buffer)
        if event.digest and event.kind == DATA:
            if self._ids.is_duplicate(event.digest, event.at_ns):
                step.reports.append(Duplicate(self._now_ns, event))
                return
            if event.ref_time_ns <= event.at_ns + self._max_ahead_ns:  # Otherwise it is dead.
                self._ids.remember(event.digest, event.at_ns)
        self._await_end_of_instant(buffer)
        buffer.take(event, step)
        while (by := self._find_exceeded_measure()) is not None:
            fullest = max(self._table.values(), key=by)
            if not fullest.held:
                return
            self._sources.mark(fullest)
            fullest.emit_oldest(self._now_ns, step)

    def figures(self) -> Figures:
        figures = super().figures()
        figures["ids"] = self._ids.count
        figures["ids_forgotten"] = self._ids.forgotten
        return figures

    def locate(self, source: str, epoch: int, seq: int) -> dict[str, Plain] | None:
        """Return the location of an event, given the number that it gets when it is emitted."""
        buffer = self._table.get(source)
        if buffer is None:
            return None
        where = PASSED if seq < buffer.next_number else NOT_COME
        return {"where": where, "epoch": 0, "next": buffer.next_number, "waiting": buffer.held}

    def _find_exceeded_measure(self) -> Callable[[TimedBuffer], tuple[int, str]] | None:
        """Return the sort key for the bound that is exceeded, or None if none is."""
        if self._totals.held > self._config.max_held_total:
            return count_held
        return bytes_held if self._totals.held_bytes > self._config.max_held_bytes else None

    def _begin(self, buffer: TimedBuffer, event: Event) -> None:
        buffer.next_number = event.seq

    def restoring(self, state: Mapping[str, Plain], held: Sequence[Event]) -> Iterator[int]:
        yield from super().restoring(state, held)
        self._ids.check()
