"""Models the cost of speculative detectors, which limits how far after W they may read.

All speculative detectors of a stream share one model. It has the time of the newest event, and
counts the items that late events have forced detectors to read again. `budget` derives the shortest
wait whose price is granted, and `spending` bounds the cost within every two seconds. Costs are
evaluated a span at a time. A span ends only with an event of a later span, because instants without
events depend on how the input was cut into batches.

Operators measure no time: the model counts items, and an item costs `STEP_NS`, or the time that the
driver has measured on this machine. The load decides how early results are emitted, but never their
final values.

The published runtime adaptation also reads less far when the processor is busy (Reliable
Speculative Processing, 4.4). It finds its wait by trial, as a share alpha of the distance from W to
the newest event. Here the price of a wait is known before it is tried.
"""

from __future__ import annotations

from typing import Any, Final

from topology.answer.budget import BUDGET, SPAN_NS, Budget
from topology.answer.frontier import NOT_YET
from topology.answer.spending import WHOLE
from topology.base.operator import Figures
from topology.state.saved import BIG, INT, Saved, Shape

STEP_NS: Final = 4_000
QUIET: Final = -1
"""The lateness of an open instant that has no event yet."""


LOAD_MODEL: Final = Shape(
    "answer.load_model",
    1,
    newest_ns=BIG,
    _late_ns=INT,
    _span=INT,
    _first=INT,
    _again=INT,
    _unpaid=INT,
    budget=BUDGET,
)


class LoadModel(Saved):
    """The load of the detectors of one stream.

    `granted_ppm` is their share of a processor. An event more than `max_ahead_ns` ahead of its
    arrival does not count as the newest.
    """

    SHAPE = LOAD_MODEL

    def __init__(self, granted_ppm: int, max_ahead_ns: int) -> None:
        self.budget = Budget(granted_ppm)
        self.newest_ns: int = NOT_YET
        self._max_ahead_ns = max_ahead_ns
        self._late_ns = QUIET
        self._span = 0
        self._first = 0
        self._again = 0
        """The items that were read again in the open span."""
        self._unpaid = 0
        """The items that were read again and are not charged to `spending` yet."""
        self._step_ns = STEP_NS

    def set_costs(self, step_ns: int, others_ppm: int) -> None:
        """Set what the driver has measured: the cost of an item, and the load of other programs."""
        self._step_ns = max(step_ns, 1)
        self.budget.others_ppm = others_ppm

    def note_event(self, ref_ns: int, at_ns: int) -> None:
        """Record an event's time and arrival; several detectors may report the same event."""
        self._late_ns = max(self._late_ns, self.newest_ns - ref_ns, 0)
        if self.newest_ns < ref_ns <= at_ns + self._max_ahead_ns:
            self.newest_ns = ref_ns

    def note_work(self, first: int, again: int) -> None:
        """Count the items that a detector has read for the first time and again."""
        self._first += first
        self._again += again
        self._unpaid += again

    def ahead_ns(self, watermark_ns: int) -> int:
        """Return how far the newest event is ahead of the watermark; 0 without a watermark."""
        return max(0, self.newest_ns - watermark_ns) if watermark_ns > NOT_YET else 0

    def goal_ns(self, watermark_ns: int) -> int:
        """Return the event time up to which detectors read."""
        if watermark_ns >= self.newest_ns:
            return watermark_ns
        return max(watermark_ns, self.newest_ns - self.wait_ns(watermark_ns))

    def wait_ns(self, watermark_ns: int) -> int:
        """Return how far before the newest event reading stops."""
        return self.budget.wait_ns(self.ahead_ns(watermark_ns))

    def is_spent(self, watermark_ns: int) -> bool:
        """Return whether the bound on spending makes the wait longer than `budget` has chosen."""
        budget, ahead_ns = self.budget, self.ahead_ns(watermark_ns)
        return ahead_ns - budget.spending.reach_ns > budget.chosen_wait_ns(ahead_ns)

    def figures(self, watermark_ns: int, *, is_speculative: bool) -> Figures:
        """Return the wait, its share of the distance to W (alpha), and the lead over MERGE.

        All are 0 if detectors are not speculative.
        """
        ahead_ns = self.ahead_ns(watermark_ns) if is_speculative else 0
        wait_ns = self.budget.wait_ns(ahead_ns)
        alpha_ppm = wait_ns * WHOLE // ahead_ns if ahead_ns else 0
        return {"wait_ns": wait_ns, "wait_share_ppm": alpha_ppm, "lead_ns": ahead_ns - wait_ns}

    def settle(self, now_ns: int, watermark_ns: int) -> None:
        """End an instant; only the call of the first detector in the instant has an effect."""
        late_ns, self._late_ns = self._late_ns, QUIET
        if late_ns == QUIET:
            return
        self.budget.spending.spend(self._unpaid * self._step_ns)
        self._unpaid = 0
        self.budget.note_late(late_ns)
        passed = now_ns // SPAN_NS - self._span
        if passed <= 0:
            return
        if self._span:
            first_ns, ahead_ns = self._first * self._step_ns, self.ahead_ns(watermark_ns)
            self.budget.end_span(passed * SPAN_NS, first_ns, ahead_ns, self._first, self._again)
        self._span += passed
        self._first = self._again = 0

    def explain(self) -> dict[str, Any]:
        """Return the price of rollbacks and the loads, in ppm of a processor; bounds are in ns."""
        budget = self.budget
        return {
            "price_ppm": budget.price_ppm,
            "room_ppm": budget.room_ppm,
            "first_ppm": budget.first_ppm,
            "others_ppm": budget.others_ppm,
            "reach_ns": budget.spending.reach_ns,
            "left_ns": budget.spending.left_ns,
        }
