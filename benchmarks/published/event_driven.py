"""Waits until every live source has sent a later event: BL-ED of the ProbSlack paper.

The paper has a single stream; here each source counts. The frontier is just below the smallest of
the live sources' newest times. No event is missed if each source sends in order, and none is new or
comes back from silence.
"""

from __future__ import annotations

from typing import Final

from topology.answer.waiting.policy import BEFORE_ALL, FLOORED, FlooredSlack
from topology.answer.waiting.sources import MAX_SOURCES, SOURCE, Source, Sources
from topology.base.event import Event
from topology.base.operator import NEVER
from topology.state.saved import BIG
from topology.state.tables import TableWithin

EVENT_DRIVEN: Final = FLOORED.with_more(
    "published.event_driven", 1, _newest_ns=BIG, _sources=TableWithin(SOURCE)
)


class EventDriven(FlooredSlack):
    """A strategy that waits for all live sources.

    Cost: O(sources) for each lookup of the frontier, and for each instant with arrivals.
    """

    SHAPE = EVENT_DRIVEN

    certain = True

    def __init__(self, *, idle_ns: int = NEVER, max_sources: int = MAX_SOURCES) -> None:
        super().__init__()
        self._newest_ns = BEFORE_ALL
        self._sources = Sources(Source, SOURCE, idle_ns, max_sources)

    def _observe_event(self, event: Event, now_ns: int) -> None:
        source = self._sources.observe(event.source, now_ns)
        source.last_ns = max(source.last_ns, event.ref_time_ns)
        self._newest_ns = max(self._newest_ns, event.ref_time_ns)

    def _find_frontier_ns(self, now_ns: int) -> int:
        if not self._sources.rows:
            return BEFORE_ALL
        return min(self._sources.least_ns(now_ns), self._newest_ns) - 1

    def deadline_ns(self, bound_ns: int, now_ns: int) -> int | None:
        idle_ns = self._sources.next_idle_ns(now_ns)
        return idle_ns if bound_ns < self._newest_ns and idle_ns < NEVER else None

    def ignores_idle(self, bound_ns: int, now_ns: int) -> bool:
        return self._sources.is_idle_behind(bound_ns, now_ns)

    def newest_ns(self) -> int:
        return self._newest_ns

    def note_end(self, source: str, now_ns: int) -> None:
        self._sources.note_end(source)
