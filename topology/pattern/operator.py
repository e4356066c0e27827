"""PATTERN: matches of a stream's queries, as an operator of the chain.

Events and control events pass unchanged; what is found goes into `Step.results`. The
frontier comes with the watermarks: all before C is there, and what W has left behind by
`correct_for_ns` is given up. Behind MERGE an event that comes too late for a query has been
accounted for as late already, so here it is only counted (`figures`).

Before MERGE (`patterns_read: raw` or `sequenced`) no watermark tells how far events have come. The
frontier then is `correct_for` behind the newest event, and the engine alone corrects: it waits for
nobody, drops copies, and takes `ts`, or what REORDER made of it, for the time. One clock far ahead
would make all others late, so an event more than `max_ahead` after its arrival is refused.

The state is what was said of results not yet final. The events themselves are *held*: they are
in the log, and `held_by` says that this operator still wants them after it has let them pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from topology.event import DATA, WATERMARK, Event
from topology.operator import Changes, Figures, State
from topology.outcome import Step
from topology.pattern.engine import (
    BEFORE_ALL,
    CONFLICT,
    DUPLICATE,
    IRRELEVANT,
    LATE,
    REFUSED,
    STORED,
    Engine,
)
from topology.pattern.entry import Entry
from topology.payload import UNREADABLE, read_payload

Decode = Callable[[Any], Any]


class Pattern:
    """`position` is its place in the chain. `correct_for_ns`: see above. `max_ahead_ns`: it stands
    before MERGE."""

    def __init__(
        self,
        engine: Engine,
        correct_for_ns: int,
        position: int = 1,
        decode: Decode = read_payload,
        max_ahead_ns: int | None = None,
    ) -> None:
        self._engine = engine
        self._correct_for_ns = correct_for_ns
        self._position = position
        self._decode = decode
        self._max_ahead_ns = max_ahead_ns
        self._ahead = 0
        self._unreadable = 0
        self._ended: dict[str, None] = {}  # of the state, since another engine took over
        self._is_new = False
        self.let_go: list[Event] = []
        """Events no longer held, since the driver emptied it."""

    def on_batch(self, events: Sequence[Event], now_ns: int) -> Step:
        for event in events:
            if event.kind == DATA:
                self._take(event)
            elif event.kind == WATERMARK:
                frontier_ns = max(event.complete_ns, event.ref_time_ns - self._correct_for_ns)
                self._engine.advance(frontier_ns, event.at_ns)
        return self._step(now_ns, list(events))

    def _take(self, event: Event) -> None:
        if self._max_ahead_ns is not None:
            if event.ref_time_ns > event.at_ns + self._max_ahead_ns:
                self._ahead += 1
                return
            newest_ns = max(self._engine.clock_ns, event.ref_time_ns)
            self._engine.advance(newest_ns - self._correct_for_ns, event.at_ns)
        if self._engine.accept(self._entry(event), event.at_ns) == STORED:
            event.held_by = self._position

    def _entry(self, event: Event) -> Entry:
        event.epoch = max(event.epoch, 0)  # on the raw topic nobody has settled it
        payload = self._decode(event.value)
        if payload is UNREADABLE:
            self._unreadable += 1
            payload = None
        return Entry(event, payload)

    def on_time(self, now_ns: int) -> Step:
        self._engine.on_time(now_ns)
        return self._step(now_ns, [])

    def next_deadline_ns(self) -> int | None:
        return self._engine.next_deadline_ns()

    def on_end(self, now_ns: int) -> Step:
        self._engine.end(now_ns)
        return self._step(now_ns, [])

    def _step(self, now_ns: int, released: list[Event]) -> Step:
        engine = self._engine
        for entry in engine.gone:
            entry.event.held_by = 0
            self.let_go.append(entry.event)
        engine.gone.clear()
        step = Step(now_ns, released, results=list(engine.findings))
        engine.findings.clear()
        return step

    def take_over(self, engine: Engine) -> None:
        """Go on with another engine, of other queries, from where this one stands."""
        before = self._engine
        self._ended |= {key: None for key, value in before.changes().items() if value is None}
        entries = [Entry(entry.event, entry.payload) for entry in before.entries()]
        engine.restore(before.snapshot(), entries)
        self._engine = engine
        self._is_new = True
        self._step(0, [])

    def snapshot(self) -> State:
        return self._engine.snapshot()

    def changes(self) -> Changes:
        changes = self._engine.changes()
        if self._is_new:
            self._is_new = False
            changes = self._ended | changes | self._engine.snapshot()
            self._ended = {}
        return changes

    def held(self) -> Iterable[Event]:
        return (entry.event for entry in self._engine.entries())

    def restore(self, state: Mapping[str, Any], held: Iterable[Event]) -> None:
        entries = [self._entry(event) for event in held]
        self._engine.restore(state, entries)
        self._step(0, [])

    def explain(self) -> dict[str, Any]:
        """The queries, and from when on what they say is not yet final."""
        engine = self._engine
        return {
            "queries": engine.names,
            "open_since": engine.frontier_ns if engine.frontier_ns > BEFORE_ALL else None,
            "newest": engine.clock_ns if engine.clock_ns > BEFORE_ALL else None,
            **self.figures(),
        }

    def figures(self) -> Figures:
        counts = self._engine.counts
        return {
            "retained": self._engine.retained,
            "irrelevant": counts[IRRELEVANT],
            "late": counts[LATE],
            "refused": counts[REFUSED] + self._engine.refused_partitions + self._ahead,
            "copies": counts[DUPLICATE],
            "conflicts": counts[CONFLICT],
            "unpartitioned": self._engine.unpartitioned,
            "unreadable": self._unreadable,
        }
