"""What REORDER does for all its sources, whichever way each is put in order.

A source is a buffer (`topology.reorder.buffer`) with a deadline. This is the table of them: who is
due when, who is forgotten, what has changed since the last checkpoint, how all stand. The two
operators over it take events in and keep the bounds: `topology.reorder.operator` by sequence
numbers, `topology.reorder.by_time` by the sources' own times (`topology.reorder.mixed` has both).

A buffer that decides when the instant is over is *open* until then: at the end of the instant
those fire first, in the order of their names, then what is due, in the order of time.

Sources (`max_sources`, `forget_after`): the longest idle one that holds nothing is forgotten and
would start anew. Where every source holds something, the table grows past `max_sources`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from heapq import heappop, heappush
from typing import Any, Final, Generic, TypeVar

from topology.model.event import Event
from topology.model.idle import LongestIdle
from topology.model.journal import Journal
from topology.model.operator import (
    NEVER,
    TURN,
    Changes,
    Figures,
    Plain,
    State,
    StepByStep,
)
from topology.model.outcome import Step
from topology.reorder.buffer import SourceBuffer, Totals, name_of
from topology.reorder.settings import ReorderConfig

NOW: Final = "now"

Buffer = TypeVar("Buffer", bound=SourceBuffer)


class Shell(StepByStep, Generic[Buffer]):
    """`key` is the prefix of a source's name in the state; `totals` what all sources hold."""

    def __init__(self, key: str, totals: Totals, config: ReorderConfig) -> None:
        self._key = key
        self._totals = totals
        self._max_sources = config.max_sources
        self._forget_after_ns = config.forget_after_ns
        self._table: dict[str, Buffer] = {}
        self._now_ns = 0
        self._written_ns = -1  # the time that `changes` gave last
        self._due: list[tuple[int, str]] = []  # (deadline or earlier, source): one per armed buffer
        self._due_ns = NEVER  # nothing is to be done before the time goes beyond this
        self._open: list[Buffer] = []
        self._longest_idle = LongestIdle()
        self._journal = Journal(self._table)
        self.forgotten = 0

    # -- what the two ways differ in ---------------------------------------------------------------

    def _new(self, event: Event) -> Buffer:
        """The buffer of a source whose first event this is."""
        raise NotImplementedError

    def _state_of(self, buffer: Buffer) -> Plain:
        """Its state, as saved under its name."""
        raise NotImplementedError

    def _restored(self, source: str, state: Plain, held: list[Event]) -> Buffer:
        """The buffer whose state that was, with the events it held, in log order."""
        raise NotImplementedError

    def _note_changes(self, buffer: Buffer, changes: Changes) -> None:
        changes[self._key + buffer.source] = self._state_of(buffer)

    def _keys_of(self, buffer: Buffer) -> list[str]:
        """Those of the state that go with it."""
        return [self._key + buffer.source]

    # -- time --------------------------------------------------------------------------------------

    def on_time(self, now_ns: int) -> Step:
        step = Step(now_ns)
        if self._due_ns <= now_ns:
            self._fire(now_ns, step)
        self._now_ns = max(self._now_ns, now_ns)
        return step

    def next_deadline_ns(self) -> int | None:
        if self._open:
            return self._now_ns
        while self._due:
            due_ns, source = self._due[0]
            buffer = self._table.get(source)
            if buffer is not None and buffer.armed_ns == due_ns:
                if buffer.deadline_ns() == due_ns:
                    return due_ns
                buffer.armed_ns = NEVER
                heappop(self._due)
                self._arm(buffer)
            else:
                heappop(self._due)
        self._due_ns = NEVER
        return None

    def on_end(self, now_ns: int) -> Step:
        step = self.on_batch((), now_ns)
        for source in sorted(self._table):
            buffer = self._table[source]
            if buffer.held:
                self._journal.mark(buffer)
                buffer.end(now_ns, step)
        return step

    def _arm(self, buffer: Buffer) -> None:
        """One entry per buffer, never later than its deadline; a late one is not moved."""
        due_ns = buffer.deadline_ns()
        if due_ns < buffer.armed_ns:
            buffer.armed_ns = due_ns
            heappush(self._due, (due_ns, buffer.source))
            self._due_ns = min(self._due_ns, due_ns)

    def _await_end_of_instant(self, buffer: Buffer) -> None:
        if not buffer.is_open:
            buffer.is_open = True
            self._open.append(buffer)
            self._due_ns = min(self._due_ns, self._now_ns)

    def _fire(self, until_ns: int, step: Step) -> None:
        """End the open instant, then fire what is due up to `until_ns`."""
        if self._open:
            for buffer in sorted(self._open, key=name_of):
                buffer.is_open = False
                self._journal.mark(buffer)
                buffer.fire(self._now_ns, step)
                self._arm(buffer)
            self._open.clear()
        due = self._due
        while due and due[0][0] <= until_ns:
            due_ns, source = heappop(due)
            waiting = self._table.get(source)
            if waiting is None or waiting.armed_ns != due_ns:
                continue
            waiting.armed_ns = NEVER
            if waiting.deadline_ns() <= due_ns:
                self._now_ns = max(self._now_ns, due_ns)
                self._journal.mark(waiting)
                waiting.fire(self._now_ns, step)
            self._arm(waiting)
        self._due_ns = due[0][0] if due else NEVER

    # -- sources -----------------------------------------------------------------------------------

    def knows(self, source: str) -> bool:
        return source in self._table

    def blocked(self) -> list[str]:
        """The sources of which MERGE knows that events wait here."""
        return [source for source, buffer in self._table.items() if buffer.blocked]

    def _add(self, event: Event) -> Buffer:
        buffer = self._new(event)
        self._table[event.source] = buffer
        self._longest_idle.note(event.source, event.at_ns)
        self._forget(event.source, event.at_ns - self._forget_after_ns)
        while len(self._table) > self._max_sources and self._forget(event.source, NEVER):
            pass
        return buffer

    def _forget(self, newcomer: str, before_ns: int) -> bool:
        """Forget the longest idle source that holds nothing, if it last sent before
        that time; several where some held events when their turn came."""
        longest = self._longest_idle.longest(self._table, newcomer, before_ns)
        if longest is None:
            return False
        buffer = self._table.pop(longest)
        if buffer.is_open:
            self._open.remove(buffer)
        self._journal.forget(self._keys_of(buffer))
        self.forgotten += 1
        return True

    # -- for people --------------------------------------------------------------------------------

    def figures(self) -> Figures:
        return {
            "sources": len(self._table),
            "held": self._totals.held,
            "held_bytes": self._totals.held_bytes,
            "overflows": self._totals.overflows,
            "forgotten": self.forgotten,
            "waited_ns": self._totals.waited_ns,
        }

    def explain(self) -> dict[str, Any]:
        """Which sources wait, for what, since when and until when."""
        waiting = [buffer.explained() for _, buffer in sorted(self._table.items()) if buffer.held]
        return {**self.figures(), "waiting": waiting}

    # -- state -------------------------------------------------------------------------------------

    def snapshot(self) -> State:
        state: State = {
            self._key + source: self._state_of(buffer) for source, buffer in self._table.items()
        }
        state[NOW] = self._now_ns
        return state

    def changes(self) -> Changes:
        changes: Changes = {**self._journal.take_removed()}
        for buffer in self._journal.take_changed():
            self._note_changes(buffer, changes)
        if self._now_ns > self._written_ns:
            self._written_ns = self._now_ns
            changes[NOW] = self._now_ns
        return changes

    def held(self) -> Iterable[Event]:
        for buffer in self._table.values():
            yield from buffer.waiting()

    def restoring(self, state: Mapping[str, Plain], held: Iterable[Event]) -> Iterator[int]:
        """See `topology.model.operator`."""
        by_source: dict[str, list[Event]] = {}
        for number, event in enumerate(held):
            event.held_by = 0  # until its source takes it
            by_source.setdefault(event.source, []).append(event)
            if not number % TURN:
                yield 0
        if NOW in state:
            self._now_ns = self._written_ns = state[NOW]
        for key, value in state.items():
            if key.startswith(self._key):
                source = key[len(self._key) :]
                mine = by_source.get(source, [])
                buffer = self._table[source] = self._restored(source, value, mine)
                self._longest_idle.note(source, buffer.last_arrival_ns)
                if buffer.is_open:
                    buffer.is_open = False
                    self._await_end_of_instant(buffer)
                else:
                    self._arm(buffer)
                yield len(mine)
