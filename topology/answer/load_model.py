"""LOAD MODEL: what detectors' work costs, and how far ahead of W they may therefore read.

All detectors of a stream that read ahead have one. It knows the newest event, what lies between
that and W, and what going back behind late events has cost. From these follow the shortest wait
whose price is granted (`budget`), and the bound on each two seconds (`spending`). All is weighed a
span at a time. A span ends only when an event of a later one comes: instants without events depend
on how the input was cut.

The core has no clock: work is counted, and an item costs `STEP_NS`, or what the driver has measured
on this machine. The load decides how early results are emitted, and never which of them stand.

The idea is the published runtime adaptation (Reliable Speculative Processing, 4.4): read less far
ahead when the processor is busy. There the wait is a share alpha of the whole, found by trial; here
its price is known before it is tried.
"""

from __future__ import annotations

from typing import Any, Final

from topology.answer.budget import BUDGET, SPAN_NS, Budget
from topology.answer.frontier import NOT_YET
from topology.answer.spending import WHOLE
from topology.model.kept import BIG, INT, Kept, Shape
from topology.model.operator import Figures

STEP_NS: Final = 4_000
QUIET: Final = -1
"""No event has come in the instant that is open."""


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


class LoadModel(Kept):
    """`granted_ppm`: of a processor. `max_ahead_ns`: the clock of the stream is never further
    beyond that of arrival."""

    SHAPE = LOAD_MODEL

    def __init__(self, granted_ppm: int, max_ahead_ns: int) -> None:
        self.budget = Budget(granted_ppm)
        self.newest_ns: int = NOT_YET
        self._max_ahead_ns = max_ahead_ns
        self._late_ns = QUIET
        self._span = 0
        self._first = 0
        self._again = 0
        """Work since the last span was over."""
        self._unpaid = 0
        """Steps of going back that are not yet counted as spent."""
        self._step_ns = STEP_NS

    def items_cost(self, step_ns: int, others_ppm: int) -> None:
        """The driver has measured what an item costs on this machine, and what else the processor
        does."""
        self._step_ns = max(step_ns, 1)
        self.budget.others_ppm = others_ppm

    def note_event(self, ref_ns: int, at_ns: int) -> None:
        """An event of that time has come at that instant; each detector says so."""
        self._late_ns = max(self._late_ns, self.newest_ns - ref_ns, 0)
        if self.newest_ns < ref_ns <= at_ns + self._max_ahead_ns:
            self.newest_ns = ref_ns

    def note_work(self, first: int, again: int) -> None:
        """A detector has read so much."""
        self._first += first
        self._again += again
        self._unpaid += again

    def ahead_ns(self, watermark_ns: int) -> int:
        """How far W lies behind the newest; 0 before there is one."""
        return max(0, self.newest_ns - watermark_ns) if watermark_ns > NOT_YET else 0

    def goal_ns(self, watermark_ns: int) -> int:
        """Up to where is read."""
        if watermark_ns >= self.newest_ns:
            return watermark_ns
        return max(watermark_ns, self.newest_ns - self.wait_ns(watermark_ns))

    def wait_ns(self, watermark_ns: int) -> int:
        """How far behind the newest is read."""
        return self.budget.wait_ns(self.ahead_ns(watermark_ns))

    def is_spent(self, watermark_ns: int) -> bool:
        """Less is read than the wait would allow, as little is left for going back."""
        budget, ahead_ns = self.budget, self.ahead_ns(watermark_ns)
        return ahead_ns - budget.spending.reach_ns > budget.chosen_ns(ahead_ns)

    def figures(self, watermark_ns: int, *, is_ahead: bool) -> Figures:
        """The wait, its share of what the merge waits (alpha), and how much sooner than behind the
        merge events are read: all 0 where they are not read ahead."""
        ahead_ns = self.ahead_ns(watermark_ns) if is_ahead else 0
        wait_ns = self.budget.wait_ns(ahead_ns)
        alpha_ppm = wait_ns * WHOLE // ahead_ns if ahead_ns else 0
        return {"wait_ns": wait_ns, "wait_share_ppm": alpha_ppm, "lead_ns": ahead_ns - wait_ns}

    def settle(self, now_ns: int, watermark_ns: int) -> None:
        """An instant is over; the first detector that says so has it weighed."""
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
            self.budget.weigh(passed * SPAN_NS, first_ns, ahead_ns, self._first, self._again)
        self._span += passed
        self._first = self._again = 0

    def explain(self) -> dict[str, Any]:
        """What going back costs, and what it may, of a processor."""
        budget = self.budget
        return {
            "price_ppm": budget.price_ppm,
            "room_ppm": budget.room_ppm,
            "first_ppm": budget.first_ppm,
            "others_ppm": budget.others_ppm,
            "reach_ns": budget.spending.reach_ns,
            "left_ns": budget.spending.left_ns,
        }
