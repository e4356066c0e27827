"""MERGE as published: waits for an empty source as long as its pace suggests.

An event is emitted when every live source has sent a later one. A source is empty if it has no
buffered event while another source has one. An empty source is given up after min(cap, average + 2
deviations) of the times between its events ((3.2), (3.3)). These time-outs run in parallel. A
source that was given up is not waited for until it sends again.

As in the default MERGE, `idle_after` applies. After any late event the source is not waited for
until one of its events is in time. A pause of the log is not treated specially. S. Rajendran,
thesis, 3.1. Cost: O(sources) for an instant.
"""

from __future__ import annotations

from typing import Final

from benchmarks.published.smoothed import SMOOTHED, Smoothed
from topology.base.operator import NEVER, Figures
from topology.base.outcome import Step
from topology.order.merge.bounds import Bound, SourceBounds
from topology.order.merge.operator import Merge
from topology.order.merge.source import BEHIND, NO_REF, OUT, SOURCE, SourceProgress
from topology.state.saved import INT, optional

BEFORE_ALL_NS: Final = NO_REF - 1
"""An instant at which no source is overdue; it disables the bounds by time."""

PACED_SOURCE: Final = SOURCE.with_more(
    "published.paced_source", 1, empty_since_ns=INT, _spoke_ns=INT, _pace=optional(SMOOTHED)
)


class PacedProgress(SourceProgress):
    """A source whose pace is measured."""

    SHAPE = PACED_SOURCE
    __slots__ = ("_pace", "_spoke_ns", "empty_since_ns")

    def __init__(self, source: str, miss_ppm: int) -> None:
        super().__init__(source, miss_ppm)
        self.empty_since_ns = NEVER
        self._pace: Smoothed | None = None
        self._spoke_ns = -1

    def pace(self, at_ns: int) -> None:
        """Measure how often the source sends ((3.2), (3.3))."""
        self.empty_since_ns = NEVER
        if self._pace is None:
            self._pace = self.fresh("_pace")
        if self._spoke_ns >= 0:
            self._pace.add(at_ns - self._spoke_ns)
        self._spoke_ns = at_ns

    def given_up_ns(self, max_wait_ns: int) -> int:
        """Return when the wait for the empty source ends, or NEVER if it is not waited for."""
        if self.empty_since_ns == NEVER:
            return NEVER
        pace = self._pace
        if pace is not None and pace.samples > 1:
            max_wait_ns = min(max_wait_ns, pace.average_ns + 2 * pace.deviation_ns)
        return self.empty_since_ns + max_wait_ns

    def fresh(self, field: str) -> Smoothed:
        return Smoothed(against_new=True)


class PacedBounds(SourceBounds):
    """The bounds of all sources: the newest key of the live source that is furthest behind.

    Each source is a `PacedProgress`.
    """

    def record_in_sequence(self, progress: SourceProgress, at_ns: int) -> None:
        super().record_in_sequence(progress, at_ns)
        assert isinstance(progress, PacedProgress)
        progress.pace(at_ns)

    def stop_waiting_if_slow(self, progress: SourceProgress, delay_ns: int) -> None:
        self.retire(progress, BEHIND)

    def wait_for(self, progress: SourceProgress, until_ns: int) -> None:
        """Do nothing, because a pause of the log is not treated specially."""

    def _mark_expected(self, progress: SourceProgress) -> bool:
        self.retire(progress, OUT)
        return True

    def limit(self, now_ns: int) -> Bound:
        self._give_up_empty(now_ns)
        return super().limit(BEFORE_ALL_NS)

    def wake_ns(self, limit: Bound, head_ns: int, now_ns: int) -> int:
        given_up_ns = [NEVER]
        for progress in self._sources.values():
            assert isinstance(progress, PacedProgress)
            # A source that is blocked by a gap is not waited for.
            if not progress.blocked and progress.state < OUT:
                given_up_ns.append(progress.given_up_ns(self._max_wait_ns))
        return min(given_up_ns)

    def _give_up_empty(self, now_ns: int) -> None:
        for progress in self._sources.values():
            assert isinstance(progress, PacedProgress)
            since_ns = progress.empty_since_ns
            if progress.queue or progress.state >= OUT:
                since_ns = NEVER
            elif since_ns == NEVER:
                since_ns = now_ns
            if since_ns != progress.empty_since_ns:
                progress.empty_since_ns = since_ns
                self._known.mark(progress)
            if not progress.blocked and progress.given_up_ns(self._max_wait_ns) <= now_ns:
                self.retire(progress, OUT)


class PacedMerge(Merge):
    """A MERGE that processes events one by one, and measures the pace of its sources."""

    takes_plain: bool = False
    bounds_class = PacedBounds
    progress_class = PacedProgress

    def _release(self, step: Step) -> Bound:
        """Emit until nothing more can be emitted: a source that becomes empty limits the others."""
        while True:
            before = self._queues.count
            limit = super()._release(step)
            if not self._heads or self._queues.count == before:
                return limit

    def _await_head(self, head: Bound, limit: Bound) -> None:
        super()._await_head(head, limit)
        self._bounds.limiting = ""  # An arrival from any source may change what is emitted.

    def figures(self) -> Figures:
        figures = super().figures()
        del figures["target_ppm"]
        return figures
