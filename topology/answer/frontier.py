"""Tracks how far a stream has progressed for a query, by the watermark W and its time error E.

`goal_ns`: results that end at or before it may be emitted, by the query's rule (`rules`). With
`answer: early`, this is `sure_ns`. E is announced with each watermark, and is at least the time
error of every later event. Every event in order raises W too, so a window does not wait for the
next announcement.

If a query reads accepted events and has a quality target, the target closes its windows, at the
latest when they are final. W does not, because MERGE has its own target and may miss events too.

`sure_ns`: the largest value that W - E has had. No further event in order is before it.

`final_ns`: results that end at or before it are final. One of two conditions holds: the
completeness frontier C has passed the end and W is later by `new_source_allowance`, or W is later
by `correct_for`. C covers known sources only: a new source may bring earlier events, and the
allowance leaves room for them. The errors here include those of idle sources, which may send again.

These three never decrease, and final_ns <= goal_ns.

`proven_ns`: results that end at or before it were decided before the input ended (`seal`).

The possibility of new sources does not lower the confidence of a window, because no known fact
suggests them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from topology.answer.quality_target import QualityTarget
from topology.answer.query.beginning import QueryBeginning
from topology.answer.rules import FINAL
from topology.answer.settings import AnswerSettings
from topology.base.event import Event
from topology.state.saved import BIG, Saved, Shape

NOT_YET: Final = -(1 << 66)
FOR_EVER: Final = 1 << 66


FRONTIER: Final = Shape(
    "frontier",
    1,
    watermark_ns=BIG,
    _announced_ns=BIG,
    _complete_ns=BIG,
    error_ns=BIG,
    _error_all_ns=BIG,
    goal_ns=BIG,
    sure_ns=BIG,
    final_ns=BIG,
)


class Frontier(Saved):
    """The frontiers of one stream for a query.

    `observe` and `announce` record progress, and `settle` applies it at the end of the instant.
    `watermark_ns` is W and `error_ns` is E, from the last announcement and later events.
    `beginning` has the instant from which the query takes the stream's events into account.
    """

    SHAPE = FRONTIER

    def __init__(
        self,
        query: AnswerSettings,
        target: QualityTarget | None = None,
        beginning: QueryBeginning | None = None,
        *,
        ordered: bool = True,
    ) -> None:
        """Start before all events; if `ordered`, W closes windows that the target does not."""
        self._query = query
        self._correct_for_ns = query.changes_for_ns
        self._new_source_allowance_ns = query.new_source_allowance_ns
        self._heeds_errors = query.uses_time_errors
        self._target = target
        self.beginning = beginning or QueryBeginning(ordered=ordered)
        self._ordered = ordered
        self.waits_for_final = query.answer == FINAL
        self._closes = not self.waits_for_final and (ordered or target is None)
        self.watermark_ns = NOT_YET
        self._announced_ns = NOT_YET
        self._complete_ns = NOT_YET
        self.error_ns = 0
        self._error_all_ns = 0
        self.goal_ns = NOT_YET
        self.sure_ns = NOT_YET
        self.final_ns = NOT_YET
        self.proven_ns = FOR_EVER

    @property
    def announced_ns(self) -> int:
        """W, as last announced."""
        return self._announced_ns

    @property
    def complete_ns(self) -> int:
        """The completeness frontier C."""
        return self._complete_ns

    @property
    def passed_ns(self) -> int:
        """The instant before which no more events in order can come, by W and E."""
        return self.watermark_ns - self.error_ns

    def observe(self, event: Event) -> None:
        """Raise W and E to the time and the error of an event in order."""
        if event.ref_time_ns > self.watermark_ns:
            self.watermark_ns = event.ref_time_ns
        if event.error_ns > self.error_ns and self._heeds_errors:
            self.error_ns = event.error_ns
            self._error_all_ns = max(self._error_all_ns, event.error_ns)

    def announce(self, event: Event) -> None:
        """Record W, C and the time errors of a watermark."""
        self.watermark_ns = max(self.watermark_ns, event.ref_time_ns)
        self._announced_ns = self.watermark_ns
        self._complete_ns = max(self._complete_ns, event.complete_ns)
        if self._heeds_errors:
            self.error_ns = event.error_ns
            self._error_all_ns = max(event.error_ns, event.error_all_ns)

    def next_settle_ns(self, closing_ns: int, final_ns: int) -> int:
        """Return the watermark from which `settle` may have an effect on these ends.

        Below it nothing that ends at `closing_ns` or later is closed, and nothing that ends at
        `final_ns` or later becomes final.
        """
        if self.waits_for_final:
            closing_ns = final_ns = min(closing_ns, final_ns)
        until_ns = final_ns + self._error_all_ns
        room_ns = min(closing_ns + self.error_ns, until_ns + self._correct_for_ns)
        if self._complete_ns >= until_ns:
            room_ns = min(room_ns, until_ns + self._new_source_allowance_ns)
        return room_ns

    def settle(self) -> None:
        watermark_ns = self.watermark_ns
        passed_ns = watermark_ns - self.error_ns
        if passed_ns > self.sure_ns:
            self.sure_ns = passed_ns
        # This repeats `decided_ns` without its calls, because it runs at each instant.
        decided_ns = watermark_ns - self._new_source_allowance_ns
        if decided_ns > self._complete_ns:
            decided_ns = self._complete_ns
        if decided_ns < watermark_ns - self._correct_for_ns:
            decided_ns = watermark_ns - self._correct_for_ns
        final_ns = decided_ns - self._error_all_ns
        if final_ns > self.final_ns:
            self.final_ns = min(final_ns, self.closed_ns)
        goal_ns = self.sure_ns if self._closes else self.final_ns
        if goal_ns > self.goal_ns:
            self.goal_ns = goal_ns
        if self._target is not None and not self.waits_for_final:
            self.goal_ns = max(self.goal_ns, self._target.closed_ns)

    @property
    def closed_ns(self) -> int:
        """The instant before which no event is awaited; later results cannot become final."""
        return max(self.goal_ns, self.sure_ns)

    @property
    def decided_ns(self) -> int:
        """The instant before which the watermarks allow no event that still changes results."""
        return self._decided_ns(self._new_source_allowance_ns)

    @property
    def decided_by_known_ns(self) -> int:
        """The value of `decided_ns` if no new source appears."""
        return self._decided_ns(0)

    def _decided_ns(self, new_source_allowance_ns: int) -> int:
        watermark_ns = self.watermark_ns
        heard_ns = min(self._complete_ns, watermark_ns - new_source_allowance_ns)
        return max(heard_ns, watermark_ns - self._correct_for_ns)

    def after(self, watermarks: Sequence[Event]) -> Frontier:
        """Return this frontier as it would be after these watermarks."""
        other = Frontier(self._query, self._target, self.beginning, ordered=self._ordered)
        other.load(self.dump())
        for event in watermarks:
            other.announce(event)
        other.settle()
        return other

    def force_final(self, until_ns: int) -> None:
        """Make results that end at or before this time final early, because the state is full."""
        self.final_ns = max(self.final_ns, min(until_ns, self.closed_ns))
        self.goal_ns = max(self.goal_ns, self.final_ns)

    def waive_new_sources(self) -> None:
        """Make results final as if no new source could appear, because the state is almost full."""
        self.force_final(self.decided_by_known_ns - self._error_all_ns)

    def seal(self) -> None:
        """Record that the input has ended: later ends are decided by the end of the input alone."""
        self.proven_ns = self.sure_ns

    def end(self) -> None:
        """Close everything: no event follows, and missing events stay missing."""
        self.watermark_ns = self.goal_ns = self.sure_ns = self.final_ns = FOR_EVER

    def is_incomplete(self, end_ns: int) -> bool:
        """Return whether an event before `end_ns` may be missing.

        An event may be missing if the last watermark has announced a lost sequence number, or a
        source that is not awaited. It may also be missing if the window was closed before W - E
        reached its end. A query that began in the middle of its stream cannot know before the first
        watermark, so the result is then True.
        """
        if self._announced_ns == NOT_YET and self.beginning.awaits_watermarks:
            return True
        if self.sure_ns < self.goal_ns and self.sure_ns < end_ns:
            return True
        complete_ns = self._complete_ns - self.error_ns
        return self._complete_ns < self._announced_ns and complete_ns < end_ns
