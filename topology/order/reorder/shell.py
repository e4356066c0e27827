"""Implements the part of REORDER that is the same for order by number and order by time.

A source is a buffer (`topology.order.reorder.buffer`) with a deadline. The shell keeps the table
of the buffers. It determines which buffers are due, which are forgotten, and which have changed
since the last checkpoint, and it reports the figures of all buffers. Two operators are based on
it, which take events in and enforce the bounds. `topology.order.reorder.operator` uses sequence
numbers, and `topology.order.reorder.by_time` uses the sources' own times.
`topology.order.reorder.mixed` combines the two.

A buffer that decides at the end of an instant is *open* until then. At that end, the open buffers
fire first, in the order of their names. Then all due buffers fire, in the order of their deadlines.

The settings `max_sources` and `forget_after` are explained in `topology.state.sources`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Generic, TypeVar

from topology.base.event import Event
from topology.base.lazy_heap import LazyHeap
from topology.base.operator import NEVER, TURN, Figures, Plain
from topology.base.outcome import Step
from topology.order.reorder.buffer import SourceBuffer, Totals, name_of
from topology.state.saved import INT, Shape
from topology.state.saved_operator import SavedOperator
from topology.state.sources import SourceTable
from topology.state.tables import SavedState, Table

OWN: Final = "stream"
"""The key of the state that concerns all sources."""
BUFFER: Final = "buffer/"
"""The prefix of the keys of the sources' buffers."""
SOURCES: Final = Shape("reorder.sources", 1, forgotten=INT)

Buffer = TypeVar("Buffer", bound=SourceBuffer)


class Deadlines(LazyHeap):
    """The sources by the deadlines of their buffers.

    A buffer has an entry at `armed_ns`, which is no later than its deadline.
    """

    __slots__ = ("_table",)

    def __init__(self, table: Mapping[str, SourceBuffer]) -> None:
        super().__init__()
        self._table = table

    def find_key(self, name: str) -> int | None:
        buffer = self._table.get(name)
        if buffer is None:
            return None
        buffer.armed_ns = buffer.deadline_ns()
        return buffer.armed_ns if buffer.armed_ns < NEVER else None


class Shell(SavedOperator, Generic[Buffer]):
    """An operator over a table of buffers; subclasses add the intake of events.

    `sources` contains all buffers, and `totals` their counts. `shape` is the saved form of the
    operator's own state. `tables` contain further state of the sources.
    """

    def __init__(
        self,
        sources: SourceTable[Buffer],
        totals: Totals,
        shape: Shape,
        tables: Sequence[Table[Any, Any]] = (),
    ) -> None:
        self._sources = sources
        self._table = sources.rows
        self._totals = totals
        self._saved = SavedState(OWN, shape, (sources, *tables))
        self._now_ns = 0
        self._due = Deadlines(self._table)
        self._due_ns = NEVER  # Nothing is due before this time.
        self._open: list[Buffer] = []

    def _begin(self, buffer: Buffer, event: Event) -> None:
        """Prepare the buffer of a source for `event`, the first one of the source."""
        raise NotImplementedError

    # -- Time --------------------------------------------------------------------------------------

    def on_time(self, now_ns: int) -> Step:
        step = Step(now_ns)
        if self._due_ns <= now_ns:
            self._fire(now_ns, step)
        self._now_ns = max(self._now_ns, now_ns)
        step.take_kept(self._totals.kept, self._totals.freed)
        return step

    def next_deadline_ns(self) -> int | None:
        if self._open:
            return self._now_ns
        first = self._due.first()
        if first is None:
            self._due_ns = NEVER
            return None
        return first[0]

    def on_end(self, now_ns: int) -> Step:
        step = self.on_batch((), now_ns)
        for source in sorted(self._table):
            buffer = self._table[source]
            if buffer.held:
                self._sources.mark(buffer)
                buffer.end(now_ns, step)
        step.take_kept(self._totals.kept, self._totals.freed)
        return step

    def _arm(self, buffer: Buffer) -> None:
        """Ensure that the buffer has an entry in `_due` no later than its deadline.

        If the deadline becomes later, the entry stays where it is.
        """
        due_ns = buffer.deadline_ns()
        if due_ns < buffer.armed_ns:
            buffer.armed_ns = due_ns
            self._due.push(due_ns, buffer.source)
            self._due_ns = min(self._due_ns, due_ns)

    def _await_end_of_instant(self, buffer: Buffer) -> None:
        if not buffer.is_open:
            buffer.is_open = True
            self._open.append(buffer)
            self._due_ns = min(self._due_ns, self._now_ns)

    def _advance_time(self, now_ns: int, step: Step) -> None:
        """Process all that is due before `now_ns`, and make `now_ns` the current time."""
        if self._due_ns < now_ns:
            self._fire(now_ns - 1, step)
        if now_ns > self._now_ns:
            self._now_ns = now_ns

    def _fire(self, until_ns: int, step: Step) -> None:
        """End the open instant, then process all that is due up to `until_ns`."""
        if self._open:
            for buffer in sorted(self._open, key=name_of):
                buffer.is_open = False
                self._sources.mark(buffer)
                buffer.fire(self._now_ns, step)
                self._arm(buffer)
            self._open.clear()
        due = self._due
        while (first := due.first(until_ns + 1)) is not None:
            due_ns, source = first
            due.pop()
            waiting = self._table[source]
            waiting.armed_ns = NEVER
            self._now_ns = max(self._now_ns, due_ns)
            self._sources.mark(waiting)
            waiting.fire(self._now_ns, step)
            self._arm(waiting)
        self._due_ns = due.entries[0][0] if due.entries else NEVER

    # -- Sources -----------------------------------------------------------------------------------

    def has_source(self, source: str) -> bool:
        return source in self._table

    def list_blocked(self) -> list[str]:
        """Return the sources that are blocked, as far as MERGE knows."""
        return [source for source, buffer in self._table.items() if buffer.blocked]

    def _add_buffer(self, event: Event) -> Buffer:
        buffer = self._sources.make_source(event.source, event.at_ns)
        self._begin(buffer, event)
        for forgotten in self._sources.add(buffer):
            if forgotten.is_open:
                self._open.remove(forgotten)
            forgotten.forget()
        return buffer

    # -- Diagnosis ---------------------------------------------------------------------------------

    def figures(self) -> Figures:
        return {
            "sources": len(self._table),
            "held": self._totals.held,
            "held_bytes": self._totals.held_bytes,
            "overflows": self._totals.overflows,
            "forgotten": self._sources.forgotten,
            "waited_ns": self._totals.waited_ns,
        }

    def explain(self) -> dict[str, Any]:
        """Return the figures, and why each source buffers events, since when and until when."""
        waiting = [buffer.explain() for _, buffer in sorted(self._table.items()) if buffer.held]
        return {**self.figures(), "waiting": waiting}

    # -- State -------------------------------------------------------------------------------------

    def iter_held(self) -> Iterable[Event]:
        for buffer in self._table.values():
            yield from buffer.waiting()

    def restoring(self, state: Mapping[str, Plain], held: Sequence[Event]) -> Iterator[int]:
        by_source: dict[str, list[Event]] = {}
        for number, event in enumerate(held):
            by_source.setdefault(event.source, []).append(event)
            if not number % TURN:
                yield 0
        yield from super().restoring(state, held)
        for source, buffer in self._table.items():
            mine = by_source.get(source, [])
            buffer.buffer_again(mine)
            if buffer.is_open:
                buffer.is_open = False
                self._await_end_of_instant(buffer)
            else:
                self._arm(buffer)
            yield len(mine)
        self._totals.kept.clear()
