"""REORDER under `rule: time`: each source leaves in the order of its own time.

For sources that number nothing. It stands where `topology.reorder.operator` stands and owes the
same to those behind it: each source in sequence. What it orders is one source by its own stamps,
never one source against another: their clocks disagree until CLOCK has spoken, and a clock that is
wrong hurts its own source only. The order across sources, and the wait for it, are MERGE's.

Each source has an order of its own (`topology.reorder.time_buffer`) with a waiting strategy of its
own. What leaves is numbered anew, one up for each event, from the place in the log of the
source's first event on, epoch 0: so the number rises with the time, and what is behind works
as ever. A late event that goes on takes the next number too; one that does not keeps its
place in the log.

Guarantees
* Unmarked events of a source leave strictly in the order (time, number as it came).
* No event waits longer than `max_wait`.
* Late (`overtaken`): an event below the last one of its source that left unmarked.
* Nothing is known of holes: no gaps are told, and MERGE is told so (it says nothing is complete).

`blocked` tells MERGE that events of the source wait here, `unblocked` that none does any more:
an event that leaves says neither, unlike behind a hole. So MERGE never passes an event that is
here, and waits for a silent source by its delays as usual. `heartbeat` and `bye` wait and leave
like events. A dead letter has no place to keep.

Bounds: `max_held` events per source, `max_held_total` and `max_held_bytes` in all (at the bound
the source that is fullest by that bound lets go of the first eighth of what it holds, counted in
`overflows`); sources
as in `topology.reorder.operator`.

Cost: O(log held) an event, and what the strategy costs; O(sources) when the bound in all is
reached. Memory: held events, about 5 kB per source in order, up to 14 kB where its times scatter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import heappop, heappush
from typing import Any, Final

from topology.model.event import BLOCKED, BYE, DATA, HEARTBEAT, UNBLOCKED, Event
from topology.model.idle import Quiet
from topology.model.operator import NEVER, Changes, Figures, Operator, State
from topology.model.outcome import Step
from topology.reorder.settings import TableSettings
from topology.reorder.time_buffer import ReorderByTime
from topology.waiting.policy import SlackPolicy

NOW: Final = "now"
LINE: Final = "line/"
PUSHED_OUT: Final = 8
"""At the bound one of so many leaves."""


class Line:
    """One source: its order, its next number, what MERGE has been told."""

    __slots__ = (
        "armed_ns",
        "blocked",
        "bytes",
        "dirty",
        "held",
        "last_arrival_ns",
        "next_number",
        "open",
        "order",
        "overflows",
        "source",
    )

    def __init__(self, source: str, order: ReorderByTime) -> None:
        self.source = source
        self.order = order
        self.next_number = 0
        self.blocked = False
        self.last_arrival_ns = 0
        self.armed_ns = NEVER
        self.open = False  # in the instant that is not over it has heard something
        self.dirty = False
        self.held = 0  # as counted by the operator
        self.bytes = 0
        self.overflows = 0

    def busy(self) -> bool:
        """It holds events, so it must not be forgotten."""
        return self.order.held_count > 0

    def snapshot(self) -> Any:
        return [self.next_number, self.blocked, self.last_arrival_ns, self.order.snapshot()]


class SourcesByTime(Operator):
    """`policy` makes the strategy of a source; `max_ahead_ns`: an event further ahead of its
    arrival is dead, None: never."""

    def __init__(
        self,
        stream: str,
        config: TableSettings,
        policy: Callable[[], SlackPolicy],
        position: int = 1,
        max_ahead_ns: int | None = None,
    ) -> None:
        self._stream = stream
        self._policy = policy
        self._position = position
        self._max_ahead_ns = max_ahead_ns
        self._late = config.late
        self._max_wait_ns = config.max_wait_ns
        self._max_held = config.max_held
        self._max_held_total = config.max_held_total
        self._max_held_bytes = config.max_held_bytes
        self._max_sources = config.max_sources
        self._forget_after_ns = config.forget_after_ns

        self._lines: dict[str, Line] = {}
        self._open: list[Line] = []
        self._due: list[tuple[int, str]] = []  # (deadline or earlier, source): one per armed line
        self._quiet = Quiet()
        self._dirty: list[Line] = []
        self._gone: list[str] = []
        self._held = 0
        self._bytes = 0
        self._now_ns = 0
        self._told_ns = -1  # the time that `changes` gave last
        self.late = 0
        self.overflows = 0
        self.forgotten = 0

    # -- the contract ------------------------------------------------------------------------------

    def on_batch(self, events: Sequence[Event], now_ns: int) -> Step:
        step = Step(now_ns)
        for event in events:
            if event.at_ns > self._now_ns:
                self._pass_time(event.at_ns, step)
            if event.kind in (DATA, HEARTBEAT, BYE):
                self._take(event, step)
        if now_ns > self._now_ns:
            self._pass_time(now_ns, step)
        return step

    def on_time(self, now_ns: int) -> Step:
        step = Step(now_ns)
        if now_ns >= self._now_ns:
            self._pass_time(now_ns + 1, step)
            self._now_ns = now_ns
        return step

    def next_deadline_ns(self) -> int | None:
        if self._open:
            return self._now_ns
        while self._due:
            due_ns, source = self._due[0]
            line = self._lines.get(source)
            if line is not None and line.armed_ns == due_ns:
                return due_ns
            heappop(self._due)
        return None

    def on_end(self, now_ns: int) -> Step:
        step = self.on_time(now_ns)
        for source in sorted(self._lines):
            line = self._lines[source]
            if line.order.held_count:
                self._mark(line)
                self._follow(line, line.order.on_end(now_ns), step)
                self._tell(line, step)
            line.armed_ns = NEVER
        return step

    # -- events ------------------------------------------------------------------------------------

    def _take(self, event: Event, step: Step) -> None:
        line = self._lines.get(event.source)
        if line is None:
            line = self._new_line(event)
        line.last_arrival_ns = event.at_ns
        self._mark(line)
        if not line.open:
            line.open = True
            self._open.append(line)
        self._follow(line, line.order.on_batch((event,), self._now_ns), step)
        if self._held > self._max_held_total or self._bytes > self._max_held_bytes:
            self._push_out(step)

    def _follow(self, line: Line, said: Step, step: Step) -> None:
        """What leaves bears its number from here on."""
        for event in said.released:
            event.epoch = 0
            event.seq = line.next_number
            line.next_number += 1
            if event.late:
                self.late += 1
        step.released += said.released
        step.reports += said.reports
        self._count(line)

    def _count(self, line: Line) -> None:
        held, size = line.order.held_count, line.order.held_bytes
        self._held += held - line.held
        self._bytes += size - line.bytes
        line.held, line.bytes = held, size
        self.overflows += line.order.overflows - line.overflows
        line.overflows = line.order.overflows

    def _new_line(self, event: Event) -> Line:
        line = Line(event.source, self._new_order())
        line.next_number = event.seq
        self._lines[event.source] = line
        self._quiet.note(event.source, event.at_ns)
        self._forget(event.source, event.at_ns - self._forget_after_ns)
        while len(self._lines) > self._max_sources and self._forget(event.source, NEVER):
            pass
        return line

    def _new_order(self) -> ReorderByTime:
        return ReorderByTime(
            self._policy(),
            late=self._late,
            position=self._position,
            cap_ns=self._max_wait_ns,
            max_ahead_ns=self._max_ahead_ns,
            max_held=self._max_held,
            max_held_bytes=self._max_held_bytes,
            keeps_control=True,
        )

    def _forget(self, newcomer: str, before_ns: int) -> bool:
        """Forget the longest quiet source that holds nothing, if it was last heard before that
        time."""
        longest = self._quiet.longest(self._lines, newcomer, before_ns)
        if longest is None:
            return False
        line = self._lines.pop(longest)
        if line.open:
            self._open.remove(line)
        self._gone.append(LINE + longest)
        self.forgotten += 1
        return True

    def _push_out(self, step: Step) -> None:
        while self._held > self._max_held_total or self._bytes > self._max_held_bytes:
            too_many = self._held > self._max_held_total
            fullest = max(self._lines.values(), key=count_held if too_many else bytes_held)
            if not fullest.held:
                return
            said = Step(self._now_ns)
            fullest.order.push_out(-(-fullest.held // PUSHED_OUT), self._now_ns, said)
            self._mark(fullest)
            self._follow(fullest, said, step)
            self._tell(fullest, step)

    def _mark(self, line: Line) -> None:
        if not line.dirty:
            line.dirty = True
            self._dirty.append(line)

    def _tell(self, line: Line, step: Step) -> None:
        """Keep the merge informed whether events of this source wait here."""
        waits = line.held > 0
        if waits != line.blocked:
            line.blocked = waits
            kind = BLOCKED if waits else UNBLOCKED
            number = line.next_number
            step.released.append(
                Event(self._stream, line.source, 0, number, 0, self._now_ns, kind=kind)
            )

    # -- time --------------------------------------------------------------------------------------

    def _pass_time(self, until_ns: int, step: Step) -> None:
        """End the open instant, then fire what is due before `until_ns`."""
        if self._open:
            for line in sorted(self._open, key=name_of):
                line.open = False
                self._let_go(line, step)
            self._open.clear()
        due = self._due
        while due and due[0][0] < until_ns:
            due_ns, source = heappop(due)
            line_due = self._lines.get(source)
            if line_due is None or line_due.armed_ns != due_ns:
                continue
            line_due.armed_ns = NEVER
            if deadline_of(line_due) <= due_ns:
                self._now_ns = max(self._now_ns, due_ns)
                self._let_go(line_due, step)
            else:
                self._arm(line_due)
        self._now_ns = until_ns

    def _let_go(self, line: Line, step: Step) -> None:
        """What may leave at this instant."""
        self._mark(line)
        self._follow(line, line.order.on_time(self._now_ns), step)
        self._tell(line, step)
        self._arm(line)

    def _arm(self, line: Line) -> None:
        """One entry per line, never later than its deadline; a late one is not moved."""
        due_ns = deadline_of(line)
        if due_ns < line.armed_ns:
            line.armed_ns = due_ns
            heappush(self._due, (due_ns, line.source))

    # -- for people --------------------------------------------------------------------------------

    def figures(self) -> Figures:
        return {
            "sources": len(self._lines),
            "held": self._held,
            "held_bytes": self._bytes,
            "overflows": self.overflows,
            "forgotten": self.forgotten,
        }

    def explain(self) -> dict[str, Any]:
        """Which sources wait, since when and until when at most; as `Reorder` tells it."""
        return {
            **self.figures(),
            "waiting": [
                self._explained(line) for _, line in sorted(self._lines.items()) if line.held
            ],
        }

    def _explained(self, line: Line) -> dict[str, Any]:
        since_ns = min(event.arrival_ns for event in line.order.held())
        return {
            "source": line.source,
            "epoch": 0,
            "held": line.held,
            "later_epochs": [],
            "reason": "time",
            "missing": None,
            "since": since_ns,
            "deadline": since_ns + self._max_wait_ns,
            "strategy": line.order.explain(),
        }

    # -- state -------------------------------------------------------------------------------------

    def snapshot(self) -> State:
        state: State = {LINE + source: line.snapshot() for source, line in self._lines.items()}
        state[NOW] = self._now_ns
        return state

    def changes(self) -> Changes:
        changes: Changes = dict.fromkeys(self._gone)
        self._gone.clear()
        for line in self._dirty:
            line.dirty = False
            if self._lines.get(line.source) is line:
                changes[LINE + line.source] = line.snapshot()
        self._dirty.clear()
        if self._now_ns > self._told_ns:
            self._told_ns = self._now_ns
            changes[NOW] = self._now_ns
        return changes

    def held(self) -> Iterable[Event]:
        for line in self._lines.values():
            yield from line.order.held()

    def restore(self, state: Mapping[str, Any], held: Iterable[Event]) -> None:
        by_source: dict[str, list[Event]] = {}
        for event in held:
            event.held_by = 0  # until its source takes it
            by_source.setdefault(event.source, []).append(event)
        for key, value in state.items():
            if key == NOW:
                self._now_ns = self._told_ns = value
            elif key.startswith(LINE):
                source = key[len(LINE) :]
                line = self._lines[source] = Line(source, self._new_order())
                line.next_number, line.blocked, line.last_arrival_ns, order = value
                line.order.restore(order, by_source.get(source, ()))
                self._count(line)
                self._quiet.note(source, line.last_arrival_ns)
                if line.order.instant_open:
                    line.open = True
                    self._open.append(line)
                else:
                    self._arm(line)


def deadline_of(line: Line) -> int:
    due_ns = line.order.next_deadline_ns()
    return NEVER if due_ns is None else due_ns


def count_held(line: Line) -> tuple[int, str]:
    return line.held, line.source


def bytes_held(line: Line) -> tuple[int, str]:
    return line.bytes, line.source


def name_of(line: Line) -> str:
    return line.source
