"""Buffers events and emits them in one order by time, when a waiting strategy allows it.

The order is by (ref_time, source, epoch, seq), and it is total. If events are not numbered, the
driver puts the position in the log into `seq`. At the end of each instant, the waiting strategy
(`topology.answer.waiting`) determines up to which time no more events are expected. The events up
to that time are emitted. The strategy alone decides how long events wait (up to `max_wait`) and how
reliable the order is.

The input may be a whole stream, as when published strategies are compared with each other. It may
also be one source, as in REORDER under `rule: time` (`topology.order.reorder.by_time`).

Guarantees
* Unmarked events are emitted strictly in order.
* An event below the last one emitted unmarked is late. With `late: pass` it is emitted at once,
  marked; otherwise it is reported. No event is both.
* A duplicate is an event with the key of a buffered event, or of the last one emitted. A copy of an
  event emitted earlier is late.
* No event waits longer than `max_wait`. The events before it in the order are emitted with it.

The bounds are `max_held` events and `max_held_bytes` of payload. While one is exceeded, the
smallest event is emitted anyway, and `overflows` counts it. An event whose time is more than
`max_ahead_ns` ahead of its arrival is a dead letter, reason `ahead`. The strategy does not observe
it, because it would make all others late.

Heartbeats and end-of-stream markers advance the strategy's clocks, and are not emitted. With
`keeps_control` they are buffered and emitted like events. Then a late one is dropped, and an
end-of-stream marker has no effect on earlier events that arrive after it. Control records of other
operators are always dropped.

Cost: O(log held) per event, and the cost of the strategy.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from heapq import heapify, heappop, heappush
from typing import Any, Final

from topology.answer.waiting.policy import SlackPolicy
from topology.base.event import BYE, DATA, HEARTBEAT, Event
from topology.base.late import OVERTAKEN
from topology.base.operator import NEVER, Figures, Plain
from topology.base.outcome import Duplicate, Late, Step, make_dead_letter
from topology.order.reorder.settings import ReorderConfig
from topology.order.reorder.shared import size_of
from topology.state.instant import InstantOperator
from topology.state.saved import FLAG, INT, TEXT, Shape, tuple_of
from topology.state.tables import SavedState

AHEAD: Final = "ahead"
OWN: Final = "stream"

Key = tuple[int, str, int, int]
NO_KEY: Final[Key] = (-NEVER, "", 0, 0)


@cache
def order_shape(policy: Shape) -> Shape:
    """Return the saved form of an order whose waiting strategy has the form `policy`."""
    return Shape(
        "reorder.order_by",
        1,
        _now_ns=INT,
        _instant_open=FLAG,
        _due_ns=INT,
        _last=tuple_of(INT, TEXT, INT, INT),
        late=INT,
        overflows=INT,
        _policy=policy,
    )


class TimeBuffer(InstantOperator):
    """An operator that orders events by time.

    `policy` must be new, and no other operator may use it. `config` gives the policy for late
    events, the longest wait, and the bounds of one source.
    """

    def __init__(
        self,
        policy: SlackPolicy,
        config: ReorderConfig,
        *,
        max_ahead_ns: int | None = None,
        keeps_control: bool = False,
    ) -> None:
        super().__init__(-NEVER)
        self._saved = SavedState(OWN, order_shape(policy.SHAPE))
        self._policy = policy
        self._pass_late = config.late == "pass"
        self.max_wait_ns = config.max_wait_ns
        self._max_ahead_ns: int = NEVER if max_ahead_ns is None else max_ahead_ns
        self._max_held = config.max_held
        self._max_held_bytes = config.max_held_bytes
        self._keeps_control = keeps_control

        self.heap: list[tuple[Key, Event]] = []
        self._keys: set[Key] = set()
        self.held_bytes = 0
        # The keys of events in order of arrival, including some that are already emitted.
        self._arrivals: deque[tuple[int, Key]] = deque()
        self._last: Key = NO_KEY
        self._due_ns = NEVER
        self.late = 0
        self.overflows = 0

    # -- The operator's contract -------------------------------------------------------------------

    def on_end(self, now_ns: int) -> Step:
        step = self.on_time(now_ns)
        self._policy.end()
        while self.heap:
            self._emit_oldest(step)
        self._due_ns = NEVER
        return step

    # -- Events ------------------------------------------------------------------------------------

    def _begin(self, events: Sequence[Event], now_ns: int) -> Step:
        return Step(now_ns)

    def _take(self, event: Event, step: Step) -> None:
        if event.kind == DATA or (self._keeps_control and event.kind in (HEARTBEAT, BYE)):
            self._hold(event, step)
        elif event.kind in (HEARTBEAT, BYE):
            self._policy.observe(event, self._now_ns)
            if event.kind == BYE:
                self._policy.note_end(event.source, self._now_ns)
            self._instant_open = True

    def _hold(self, event: Event, step: Step) -> None:
        now_ns = self._now_ns
        key = (event.ref_time_ns, event.source, event.epoch, event.seq)
        if key == self._last or key in self._keys:
            if event.kind == DATA:
                step.reports.append(Duplicate(now_ns, event))
            return
        if event.ref_time_ns > now_ns + self._max_ahead_ns:
            detail = (
                f"its time is {event.ref_time_ns - now_ns} ns ahead of its arrival;"
                " set the source's clock right or raise clock.max_ahead"
            )
            step.reports.append(make_dead_letter(event, now_ns, AHEAD, detail))
            return
        self._policy.observe(event, now_ns)
        self._instant_open = True
        if key < self._last:
            if event.kind == DATA:
                self._late(event, step)
            return
        heappush(self.heap, (key, event))
        self._keys.add(key)
        step.kept.append(event)
        self.held_bytes += size_of(event)
        if self.max_wait_ns < NEVER:
            self._arrivals.append((now_ns, key))
        while len(self.heap) > self._max_held or self.held_bytes > self._max_held_bytes:
            self.overflows += 1
            self._emit_oldest(step)

    @property
    def is_instant_open(self) -> bool:
        """Whether an event has arrived in the current instant, which is not over yet."""
        return self._instant_open

    def emit_oldest(self, count: int, now_ns: int, step: Step) -> None:
        """Emit up to `count` of the smallest events, to make room."""
        self._now_ns = max(self._now_ns, now_ns)
        for _ in range(min(count, len(self.heap))):
            self.overflows += 1
            self._emit_oldest(step)

    def _late(self, event: Event, step: Step) -> None:
        self.late += 1
        by_ns = self._last[0] - event.ref_time_ns
        self._policy.late(event.ref_time_ns, by_ns)
        if self._pass_late:
            event.late = OVERTAKEN
            event.at_ns = self._now_ns
            step.released.append(event)
        else:
            step.reports.append(Late(self._now_ns, event, OVERTAKEN, by_ns))

    def _emit_oldest(self, step: Step) -> None:
        """Emit the smallest event."""
        key, event = heappop(self.heap)
        self._keys.discard(key)
        self._last = key
        step.freed.append(event)
        event.at_ns = self._now_ns
        self.held_bytes -= size_of(event)
        step.released.append(event)

    # -- Time --------------------------------------------------------------------------------------

    def _next_due_ns(self) -> int:
        return self._due_ns

    def _decide(self, step: Step) -> None:
        """Emit the events that may be emitted at this instant, and set when more may be."""
        now_ns = self._now_ns
        policy = self._policy
        heap = self.heap
        while heap and policy.passes(heap[0][0][0], now_ns):
            self._emit_oldest(step)
        self._due_ns = NEVER
        if self.max_wait_ns < NEVER:
            self._emit_overdue(now_ns, step)
        if heap:
            due_ns = policy.deadline_ns(heap[0][0][0], now_ns)
            if due_ns is not None:
                self._due_ns = min(self._due_ns, due_ns)

    def _emit_overdue(self, now_ns: int, step: Step) -> None:
        arrivals = self._arrivals
        while arrivals:
            came_ns, key = arrivals[0]
            if key in self._keys:
                if came_ns + self.max_wait_ns > now_ns:
                    self._due_ns = came_ns + self.max_wait_ns
                    return
                while key in self._keys:
                    self._emit_oldest(step)
            arrivals.popleft()

    # -- Diagnosis ---------------------------------------------------------------------------------

    def figures(self) -> Figures:
        figures = {
            "held": len(self.heap),
            "held_bytes": self.held_bytes,
            "late": self.late,
            "overflows": self.overflows,
        }
        if self._last != NO_KEY:
            figures["watermark_ns"] = self._last[0]
        for name, value in self._policy.figures().items():
            figures[f"policy_{name}"] = value
        return figures

    def explain(self) -> dict[str, Any]:
        head = self.heap[0][0] if self.heap else None
        return {
            **self.figures(),
            "head": {"source": head[1], "ref_time": head[0]} if head is not None else None,
            "until": self._due_ns if self._due_ns < NEVER else None,
        }

    # -- State -------------------------------------------------------------------------------------

    def iter_held(self) -> Iterable[Event]:
        for _, event in self.heap:
            yield event

    def restoring(self, state: Mapping[str, Plain], held: Sequence[Event]) -> Iterator[int]:
        yield from super().restoring(state, held)
        self.buffer_again(held)
        yield len(held)

    def buffer_again(self, held: Iterable[Event]) -> None:
        """Buffer the restored events `held` again, in log order."""
        for event in held:
            key = (event.ref_time_ns, event.source, event.epoch, event.seq)
            self.heap.append((key, event))
            self._keys.add(key)
            self.held_bytes += size_of(event)
            if self.max_wait_ns < NEVER:
                self._arrivals.append((event.at_ns, key))
        heapify(self.heap)
