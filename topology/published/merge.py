"""MERGE as published: it waits for an empty source as long as its pace calls for.

An event leaves when every live source has sent beyond it. A source that is empty while
another has a head is given up after min(cap, average + 2 deviations) of the times between its
events ((3.2), (3.3)), the time-outs of all running in parallel, and done without until it speaks.
`idle_after` holds too; a late event makes its source catch up whatever it took; a pause of the log
is none. S. Rajendran, thesis, 3.1. Cost: O(sources) an instant.
"""

from __future__ import annotations

from typing import Final

from topology.merge.bounds import Bound, SourceBounds
from topology.merge.operator import Merge
from topology.merge.source import BEHIND, NO_REF, OUT, SOURCE, SourceProgress
from topology.model.kept import INT, optional
from topology.model.operator import NEVER, Figures
from topology.model.outcome import Step
from topology.published.smoothed import OLD_WEIGHT_PPM, SMOOTHED, Smoothed

BEFORE_ALL_NS: Final = NO_REF - 1
"""At this instant no source is overdue, so time bounds none."""

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
        """(3.2), (3.3): how often the source speaks."""
        self.empty_since_ns = NEVER
        if self._pace is None:
            self._pace = self.fresh("_pace")
        if self._spoke_ns >= 0:
            self._pace.add(at_ns - self._spoke_ns)
        self._spoke_ns = at_ns

    def given_up_ns(self, max_wait_ns: int) -> int:
        """When the wait for the empty source ends; NEVER while it is not waited for."""
        if self.empty_since_ns == NEVER:
            return NEVER
        pace = self._pace
        if pace is not None and pace.samples > 1:
            max_wait_ns = min(max_wait_ns, pace.average_ns + 2 * pace.deviation_ns)
        return self.empty_since_ns + max_wait_ns

    def fresh(self, field: str) -> Smoothed:
        return Smoothed(OLD_WEIGHT_PPM, against_new=True)


class PacedBounds(SourceBounds):
    """The newest key of the live source that is furthest behind. Each is a `PacedProgress`."""

    def receive(self, progress: SourceProgress, at_ns: int) -> None:
        super().receive(progress, at_ns)
        assert isinstance(progress, PacedProgress)
        progress.pace(at_ns)

    def fall_behind(self, progress: SourceProgress, delay_ns: int) -> None:
        self.leave(progress, BEHIND)

    def await_(self, progress: SourceProgress, until_ns: int) -> None:
        """No pause of the log is bridged."""

    def _doze(self, progress: SourceProgress) -> bool:
        self.leave(progress, OUT)
        return True

    def limit(self, now_ns: int) -> Bound:
        self._give_up_empty(now_ns)
        return super().limit(BEFORE_ALL_NS)

    def wake_ns(self, limit: Bound, head_ns: int, now_ns: int) -> int:
        given_up_ns = [NEVER]
        for progress in self._sources.values():
            assert isinstance(progress, PacedProgress)
            if not progress.blocked and progress.state < OUT:  # none waits behind a hole
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
                self.leave(progress, OUT)


class PacedMerge(Merge):
    """Takes every event by itself."""

    takes_plain: bool = False

    def _new_bounds(self) -> SourceBounds:
        return PacedBounds(self._known, self._config.max_wait_ns, self._config.idle_after_ns)

    def _progress_class(self) -> type[SourceProgress]:
        return PacedProgress

    def _release(self, step: Step) -> Bound:
        """What leaves may empty a source, which then bounds the others: until none does."""
        while True:
            before = self._queues.count
            limit = super()._release(step)
            if not self._heads or self._queues.count == before:
                return limit

    def _await_head(self, head: Bound, limit: Bound) -> None:
        super()._await_head(head, limit)
        self._bounds.limiting = ""  # a word of any source may change what leaves

    def figures(self) -> Figures:
        figures = super().figures()
        del figures["target_ppm"]
        return figures
