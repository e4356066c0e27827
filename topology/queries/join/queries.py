"""Runs all join queries of a partition as one operator, over the events of several streams.

After passing an event on, the operator holds it as long as one of the queries keeps it.
"""

from __future__ import annotations

from collections.abc import Sequence

from topology.answer.query.queries import KeepingQueries
from topology.base.event import Event, at_ns
from topology.base.outcome import Step
from topology.base.ramp import is_ramp
from topology.base.result import Finding
from topology.queries.join.operator import Join


class JoinQueries(KeepingQueries[Join]):
    """The joins of a partition."""

    def on_batch(self, events: Sequence[Event], now_ns: int) -> Step:
        """Process a batch; ramps of several streams advance side by side."""
        step = Step(now_ns, list(events))
        if any(map(is_ramp, events)):
            self._add_results(events, step)
            events = ()
        step.results += self._find(events, now_ns)
        step.results.sort(key=at_ns)
        return self._finish(step)

    def _find(self, events: Sequence[Event], now_ns: int) -> list[Finding]:
        """Process events one by one if there are several queries, as each emits rows at once."""
        found: list[Finding] = []
        if len(self._queries) > 1:
            for event in events:
                found += super()._find([event], event.at_ns)
            events = ()
        found += super()._find(events, now_ns)
        return found

    def _record_kept(self) -> None:
        super()._record_kept()
        for join in self._queries:
            for event in join.marks.left:
                if event not in self._times:
                    join.marks.forget(event)
            join.marks.left.clear()

    def _stop_keeping(self, event: Event) -> None:
        super()._stop_keeping(event)
        if event not in self._times:
            for join in self._queries:
                join.marks.forget(event)
