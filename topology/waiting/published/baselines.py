"""What ProbSlack is measured against (slack.md 5.8): BL-ED, BL-IG, BL-AD.

* `EventDriven`: up to the bound every live source has been heard beyond it. Nothing is
  missed if each source keeps order, and all of them are known.
* `Ignore`: the arrival clock has reached the bound. Waits for nothing.
* `AverageDelay`: it has reached the bound and the mean delay seen (rounded up to the ns),
  in continuous time: on clocks of whole ms it closes up to 1 ms earlier than one that
  looks at whole ms only, which matters much, for then half of the delays are ties.

The Oracle, which knows the future, is in `benchmarks.oracle`.
"""

from __future__ import annotations

from topology.model.event import Event
from topology.model.operator import Plain
from topology.waiting.policy import BEFORE_ALL, Standing
from topology.waiting.sources import MAX_SOURCES, Source, Sources


class EventDriven(Standing):
    """Cost O(1) an event, O(sources) when the last of them moves."""

    __slots__ = ("_sources",)

    certain = True

    def __init__(self, *, idle_ns: int | None = None, max_sources: int = MAX_SOURCES) -> None:
        super().__init__()
        self._sources = Sources(Source, idle_ns, max_sources)

    def _observe(self, event: Event, now_ns: int) -> None:
        source = self._sources.hear(event.source, now_ns)
        if event.ref_time_ns > source.last_ns:
            self._sources.advance(source, event.ref_time_ns)

    def _raw_ns(self, now_ns: int) -> int:
        if not self._sources.known:
            return BEFORE_ALL
        return self._sources.least_ns(now_ns) - 1

    def deadline_ns(self, bound_ns: int, now_ns: int) -> int | None:
        return self._sources.next_idle_ns(now_ns) if bound_ns < self._sources.newest_ns else None

    def waives(self, bound_ns: int, now_ns: int) -> bool:
        return self._sources.idle_is_behind(bound_ns, now_ns)

    def newest_ns(self) -> int:
        return self._sources.newest_ns

    def leave(self, source: str, now_ns: int) -> None:
        self._sources.leave(source)

    def _state(self) -> Plain:
        return self._sources.snapshot()

    def _restore(self, state: Plain) -> None:
        self._sources.restore(state)


class Ignore(Standing):
    __slots__ = ("_newest_ns",)

    def __init__(self) -> None:
        super().__init__()
        self._newest_ns = BEFORE_ALL

    def _observe(self, event: Event, now_ns: int) -> None:
        self._newest_ns = max(self._newest_ns, event.ref_time_ns)

    def _wait_ns(self) -> int:
        return 0

    def _raw_ns(self, now_ns: int) -> int:
        return BEFORE_ALL if self._newest_ns == BEFORE_ALL else now_ns - self._wait_ns()

    def deadline_ns(self, bound_ns: int, now_ns: int) -> int | None:
        return None if self._newest_ns == BEFORE_ALL else bound_ns + self._wait_ns()

    def newest_ns(self) -> int:
        return self._newest_ns

    def _state(self) -> Plain:
        return [self._newest_ns]

    def _restore(self, state: Plain) -> None:
        (self._newest_ns,) = state


class AverageDelay(Ignore):
    __slots__ = ("_events", "_sum_ns")

    def __init__(self) -> None:
        super().__init__()
        self._events = 0
        self._sum_ns = 0

    def _observe(self, event: Event, now_ns: int) -> None:
        super()._observe(event, now_ns)
        self._events += 1
        self._sum_ns += now_ns - event.ref_time_ns

    def _wait_ns(self) -> int:
        return -(-self._sum_ns // self._events)

    def _state(self) -> Plain:
        return [self._newest_ns, self._events, self._sum_ns]

    def _restore(self, state: Plain) -> None:
        self._newest_ns, self._events, self._sum_ns = state
