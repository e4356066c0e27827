"""Up to where the stream has come, as a query hears it.

`goal_ns`: what ends at or before it may be emitted, by the query's rule (`rules`). With
`answer: early` W has passed its end, and by so much that clock errors leave nothing to come (W - E;
E comes with each watermark, and is at least the error of what came since). Every event in order
raises W too, so that a window does not wait for the next announcement.

A query that reads accepted events and has a quality target is closed by the target alone: MERGE
misses events too, and the target is the query's own.

`sure_ns`: W - E has passed what ends at or before it. Nothing more can come, which is certain and
not merely likely.

`final_ns`: what ends at or before it is final. Either the complete frontier C has passed it and W
is `new_source_allowance` beyond it, or W is `correct_for` beyond it. C holds for the sources that
are known: one that sends for the first time may bring events from before it, and for these there is
room. The errors that count here are those of all sources, of idle ones too, for these may come
back. None goes back, and final_ns <= goal_ns.

`proven_ns`: how far what came has shown it, before the input was over (`seal`).

Whether a window is confirmed does not wait for newcomers: nothing that is known speaks against it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from topology.answer.quality_target import QualityTarget
from topology.answer.rules import FINAL
from topology.answer.settings import AnswerSettings
from topology.model.event import Event
from topology.model.kept import BIG, Kept, Shape
from topology.query.beginning import QueryBeginning

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


class Frontier(Kept):
    """Moved by `hear` and `announce`, made to count by `settle` when the instant is over.
    `watermark_ns` is W and `error_ns` E, as they were announced last."""

    SHAPE = FRONTIER

    def __init__(
        self,
        query: AnswerSettings,
        target: QualityTarget | None = None,
        beginning: QueryBeginning | None = None,
        *,
        ordered: bool = True,
    ) -> None:
        """`ordered`: the query reads ordered events, so that W closes what its target does not."""
        self._query = query
        self._correct_for_ns = query.changes_for_ns
        self._new_source_allowance_ns = query.new_source_allowance_ns
        self._heeds_errors = query.heeds_errors
        self._target = target
        self._beginning = beginning
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
    def passed_ns(self) -> int:
        """Nothing that possibly lies before it comes any more, by the watermarks."""
        return self.watermark_ns - self.error_ns

    def hear(self, event: Event) -> None:
        """An event in order."""
        if event.ref_time_ns > self.watermark_ns:
            self.watermark_ns = event.ref_time_ns
        if event.error_ns > self.error_ns and self._heeds_errors:
            self.error_ns = event.error_ns
            self._error_all_ns = max(self._error_all_ns, event.error_ns)

    def announce(self, event: Event) -> None:
        """A watermark record."""
        self.watermark_ns = max(self.watermark_ns, event.ref_time_ns)
        self._announced_ns = self.watermark_ns
        self._complete_ns = max(self._complete_ns, event.complete_ns)
        if self._heeds_errors:
            self.error_ns = event.error_ns
            self._error_all_ns = max(event.error_ns, event.error_all_ns)

    def room_ns(self, closing_ns: int, final_ns: int) -> int:
        """As long as W is below, `settle` closes nothing that ends at `closing_ns` or later, and
        makes nothing final that ends at `final_ns` or later."""
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
        # As `decided_ns`, without the calls: it runs at each instant.
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
        """No event before it is waited for; no further may anything be made final."""
        return max(self.goal_ns, self.sure_ns)

    @property
    def decided_ns(self) -> int:
        """No event with a smaller reference time is to come that counts, by the watermarks."""
        return self._decided_ns(self._new_source_allowance_ns)

    @property
    def heard_ns(self) -> int:
        """The same, were no source to come that has not sent."""
        return self._decided_ns(0)

    def _decided_ns(self, new_source_allowance_ns: int) -> int:
        watermark_ns = self.watermark_ns
        heard_ns = min(self._complete_ns, watermark_ns - new_source_allowance_ns)
        return max(heard_ns, watermark_ns - self._correct_for_ns)

    def after(self, watermarks: Sequence[Event]) -> Frontier:
        """As it would stand if these were announced."""
        other = Frontier(self._query, self._target, self._beginning, ordered=self._ordered)
        other.load(self.dump())
        for event in watermarks:
            other.announce(event)
        other.settle()
        return other

    def give_up(self, until_ns: int) -> None:
        """Make final what ends at or before that time, because there is no room to keep it."""
        self.final_ns = max(self.final_ns, min(until_ns, self.closed_ns))
        self.goal_ns = max(self.goal_ns, self.final_ns)

    def crowd(self) -> None:
        """There is no more room for newcomers."""
        self.give_up(self.heard_ns - self._error_all_ns)

    def seal(self) -> None:
        """The input is over; the instant is, too. What ends later only its end decides."""
        self.proven_ns = self.sure_ns

    def end(self) -> None:
        """Nothing comes any more; what is missing stays so."""
        self.watermark_ns = self.goal_ns = self.sure_ns = self.final_ns = FOR_EVER

    def is_incomplete(self, end_ns: int) -> bool:
        """By the last announcement something is missing that may lie before there: a lost number,
        or a source that is not waited for; or it was not waited for certainty. A query that began
        in the middle of its stream knows nothing of that before the first announcement."""
        if self._announced_ns == NOT_YET and self._beginning and self._beginning.awaits_watermarks:
            return True
        if self.sure_ns < self.goal_ns and self.sure_ns < end_ns:
            return True
        complete_ns = self._complete_ns - self.error_ns
        return self._complete_ns < self._announced_ns and complete_ns < end_ns
