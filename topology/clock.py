"""CLOCK: every event gets its reference time and the error of it, once.

In this version no source's clock is measured: `unsynced: trust` takes the source at
its word, ref_time = ts with error 0 (reorder_drift_merge.md 2.7). What holds already:

* Monotone within a source (2.6): a stamp below the one before is raised to it, and
  what was added goes into the error, so the true time stays inside the interval.
  An event that is late already is stamped as it stands and raises nothing.
* Causality (2.6): a stamp more than `max_ahead` after the event's own arrival refutes
  the clock. The event is dead, reason `ahead`; no other source is held by it.

Cost: O(1) an event. Memory: one small entry per source, at most `max_sources`; past
that the longest quiet source is forgotten, and with it only the guard above.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from topology.event import BLOCKED, DATA, DEAD, UNBLOCKED, Event
from topology.operator import NEVER, Changes, State
from topology.outcome import Step, dead_letter
from topology.quiet import Quiet


class Stamped:
    """The last reference time given to a source."""

    __slots__ = ("dirty", "last_arrival_ns", "ref_time_ns")

    def __init__(self, ref_time_ns: int, last_arrival_ns: int) -> None:
        self.ref_time_ns = ref_time_ns
        self.last_arrival_ns = last_arrival_ns
        self.dirty = False

    def busy(self) -> bool:
        return False


class Clock:
    """`config` is a `topology.description.ClockConfig`. Nothing is held or delayed."""

    def __init__(self, config: Any, max_sources: int) -> None:
        self._max_ahead_ns: int = config.max_ahead_ns
        self._max_sources = max_sources
        self._sources: dict[str, Stamped] = {}
        self._quiet = Quiet()
        self._dirty: list[str] = []
        self._gone: list[str] = []

    def on_batch(self, events: Sequence[Event], now_ns: int) -> Step:
        step = Step(now_ns)
        released = step.released
        sources = self._sources
        max_ahead_ns = self._max_ahead_ns
        for event in events:
            kind = event.kind
            if kind != DATA and kind in (BLOCKED, UNBLOCKED, DEAD):
                released.append(event)
                continue
            ts_ns = event.ts_ns
            arrival_ns = event.arrival_ns
            if ts_ns > arrival_ns + max_ahead_ns:
                self._refuse(event, step)
                if not event.late:
                    event.kind = DEAD  # it left in order: its number is not missing
                    released.append(event)
                continue
            event.ref_time_ns = ts_ns
            released.append(event)
            if event.late:
                continue
            stamped = sources.get(event.source)
            if stamped is None:
                stamped = self._new(event)
            elif ts_ns >= stamped.ref_time_ns:
                stamped.ref_time_ns = ts_ns
            else:
                event.ref_time_ns = stamped.ref_time_ns
                event.error_ns = stamped.ref_time_ns - ts_ns
            if arrival_ns > stamped.last_arrival_ns:
                stamped.last_arrival_ns = arrival_ns
            if not stamped.dirty:
                stamped.dirty = True
                self._dirty.append(event.source)
        return step

    def on_time(self, now_ns: int) -> Step:
        return Step(now_ns)

    def next_deadline_ns(self) -> int | None:
        return None

    def on_end(self, now_ns: int) -> Step:
        return Step(now_ns)

    def _refuse(self, event: Event, step: Step) -> None:
        ahead_ns = event.ts_ns - event.arrival_ns
        detail = (
            f"ts is {ahead_ns} ns after the arrival; set the source's clock or its ts_unit,"
            " or raise clock.max_ahead"
        )
        step.reports.append(dead_letter(event, event.at_ns, "ahead", detail))

    def _new(self, event: Event) -> Stamped:
        stamped = self._sources[event.source] = Stamped(event.ts_ns, event.arrival_ns)
        self._quiet.note(event.source, event.arrival_ns)
        if len(self._sources) > self._max_sources:
            longest = self._quiet.longest(self._sources, event.source, NEVER)
            if longest is not None:
                del self._sources[longest]
                self._gone.append(longest)
        return stamped

    def snapshot(self) -> State:
        return {
            source: [stamped.ref_time_ns, stamped.last_arrival_ns]
            for source, stamped in self._sources.items()
        }

    def changes(self) -> Changes:
        changes: Changes = dict.fromkeys(self._gone)
        self._gone.clear()
        for source in self._dirty:
            stamped = self._sources.get(source)
            if stamped is not None:
                stamped.dirty = False
                changes[source] = [stamped.ref_time_ns, stamped.last_arrival_ns]
        self._dirty.clear()
        return changes

    def held(self) -> Iterable[Event]:
        return ()

    def restore(self, state: Mapping[str, Any], held: Iterable[Event]) -> None:
        for source, (ref_time_ns, last_arrival_ns) in state.items():
            self._sources[source] = Stamped(ref_time_ns, last_arrival_ns)
            self._quiet.note(source, last_arrival_ns)
