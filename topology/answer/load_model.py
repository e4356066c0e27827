"""LOAD MODEL: what one detector's work costs, and how far ahead of W it may therefore read.

It knows the newest event, what lies between that and W, and what going back behind late events has
cost. From these follow the shortest wait whose price is granted (`budget`), the bound on each two
seconds (`spending`), and, where a query bounds the share of early results that are withdrawn, how
stable a result is (`stability`). All is weighed a span at a time. A span ends
only when an event of a later one comes: instants without events depend on how the input was cut.

The core has no clock: work is counted, and an item costs `STEP_NS`, or what the driver has measured
on this machine. The load decides how early results are emitted, and never which of them stand.

The idea is the published runtime adaptation (Reliable Speculative Processing, 4.4): read less far
ahead when the processor is busy. There the wait is a share alpha of the whole, found by trial; here
its price is known before it is tried.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from topology.answer.auto import AutoAnswer
from topology.answer.budget import SPAN_NS, Budget
from topology.answer.frontier import NOT_YET
from topology.answer.rules import SPECULATE, Rule
from topology.answer.spending import WHOLE, Load
from topology.answer.stability import Stability
from topology.model.operator import NEVER, Figures, Plain
from topology.model.saved import packed, unpacked

STEP_NS: Final = 4_000
SNAPSHOT_NS: Final = 400
BUDGET: Final = "budget"
COUNTED: Final = "counted"
STABILITY: Final = "stability"
CHOSEN: Final = "chosen"
UNPAID: Final = "unpaid"
Work = Sequence[int]
"""So far: items read for the first time, and again (in steps, corrections included); states kept;
late events that `correct` took, and did not."""
COUNTS: Final = 5
QUIET: Final = -1
"""No event has come in the instant that is open."""


class LoadModel:
    """`rests`: see `Budget.weigh`. `withdrawn_ppm`: of early results, at most; None: any number."""

    def __init__(
        self,
        granted_ppm: int,
        max_ahead_ns: int,
        withdrawn_ppm: int | None,
        *,
        rests: bool,
        is_auto: bool = False,
        corrects: bool = False,
    ) -> None:
        self.budget = Budget(granted_ppm)
        self.stability: Stability | None = None
        if withdrawn_ppm is not None:
            self.stability = Stability(self.budget.hits_ppm)
            self.budget.be_stable(WHOLE - withdrawn_ppm, self.stability)
        self.auto: AutoAnswer | None = None
        if is_auto:
            self.auto = AutoAnswer(self.budget, self.stability, withdrawn_ppm, corrects=corrects)
        self.newest_ns: int = NOT_YET
        self._max_ahead_ns = max_ahead_ns
        self._rests = rests
        self._late_ns = QUIET
        self._span = 0
        self._seen_counts = [0] * COUNTS
        self._paid = 0
        """Steps of going back, in all, that are counted as spent."""
        self._step_ns = STEP_NS
        self.is_governed = False
        self.has_weighed = False
        """Who asks, takes it back."""

    def items_cost(self, step_ns: int, others_ppm: int) -> None:
        """The driver has measured what an item costs on this machine, and what else the processor
        does."""
        self._step_ns = max(step_ns, 1)
        self.budget.others_ppm = others_ppm

    def note_event(self, ref_ns: int, at_ns: int) -> None:
        """An event of that time has come at that instant."""
        self._late_ns = max(self._late_ns, self.newest_ns - ref_ns, 0)
        if self.newest_ns < ref_ns <= at_ns + self._max_ahead_ns:
            self.newest_ns = ref_ns

    def note_result(self, time_ns: int) -> None:
        """A result of that time has come, up to which the detector had read already."""
        self._late_ns = max(self._late_ns, self.newest_ns - time_ns)

    def ahead_ns(self, watermark_ns: int) -> int:
        """How far W lies behind the newest; 0 before there is one."""
        return max(0, self.newest_ns - watermark_ns) if watermark_ns > NOT_YET else 0

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
        return {"wait_ns": wait_ns, "alpha_ppm": alpha_ppm, "won_ns": ahead_ns - wait_ns}

    def settle(self, now_ns: int, work: Work, watermark_ns: int, final_ns: int) -> None:
        """An instant is over."""
        late_ns, self._late_ns = self._late_ns, QUIET
        if late_ns == QUIET:
            return
        steps = work[1]
        self.budget.spending.spend((steps - self._paid) * self._step_ns)
        self._paid = steps
        if self.auto is not None:
            self.auto.settle()
        if late_ns:
            self.budget.note_late(late_ns)
        if now_ns // SPAN_NS > self._span:
            self._weigh(now_ns, work, watermark_ns, final_ns)

    def _weigh(self, now_ns: int, work: Work, watermark_ns: int, final_ns: int) -> None:
        """A span is over, or several of them: what did it cost?"""
        passed = now_ns // SPAN_NS - self._span
        is_first = not self._span
        self._span += passed
        first, again, snapshots, *took = self._since(work)
        self._seen_counts = list(work)
        if is_first:
            return
        load = Load(
            first * self._step_ns,
            again * self._step_ns + snapshots * SNAPSHOT_NS,
            passed * SPAN_NS,
        )
        auto, ahead_ns = self.auto, self.ahead_ns(watermark_ns)
        is_kept = auto is None or auto.answer == SPECULATE
        self.budget.weigh(load, ahead_ns, first, again, rests=self._rests, is_kept=is_kept)
        self.has_weighed = True
        if auto is not None:
            final_wait_ns = min(max(self.newest_ns - final_ns, 0), NEVER)
            auto.weigh(now_ns, load, ahead_ns, final_wait_ns, first, took)
        if self.stability is not None:
            self.stability.fade()

    def _since(self, work: Work) -> list[int]:
        """What was counted since the last span was over."""
        pairs = zip(work, self._seen_counts, strict=True)
        return [new - old for new, old in pairs]

    def explain(self, wait_ns: int, watermark_ns: int) -> dict[str, Any]:
        """What going back costs, and what it may, of a processor; how stable results are that are
        emitted now, where the query bounds it; which answer is on, where the detector chooses."""
        budget, stability = self.budget, self.stability
        facts: dict[str, Any] = {
            "price_ppm": budget.price_ppm,
            "room_ppm": budget.room_ppm,
            "first_ppm": budget.first_ppm,
            "others_ppm": budget.others_ppm,
            "reach_ns": budget.spending.reach_ns,
            "left_ns": budget.spending.left_ns,
        }
        if stability is not None:
            facts["stands_ppm"] = stability.of(wait_ns, self.ahead_ns(watermark_ns))
        if self.auto is not None:
            facts["auto"] = self.auto.choice.explain()
        return facts

    # -- state: two parts, as they stand in that of the query --------------------------------------

    def place(self) -> list[Plain]:
        return [packed(self.newest_ns), self._late_ns, self._span]

    def known(self, work: Work) -> Plain:
        """By name, for what a query's file asks may change between two runs."""
        known: dict[str, Plain] = {
            BUDGET: self.budget.snapshot(),
            COUNTED: self._since(work),
            UNPAID: work[1] - self._paid,
        }
        if self.stability is not None:
            known[STABILITY] = self.stability.snapshot()
        if self.auto is not None:
            known[CHOSEN] = self.auto.snapshot()
        return known

    def restore(self, place: list[Plain], known: Plain) -> None:
        self.newest_ns, self._late_ns, self._span = unpacked(place[0]), place[1], place[2]
        self.budget.restore(known[BUDGET])
        self._seen_counts = known[COUNTED]
        self._paid = known[UNPAID]
        if self.stability is not None and STABILITY in known:
            self.stability.restore(known[STABILITY])
        if self.auto is not None and CHOSEN in known:
            self.auto.restore(known[CHOSEN])

    def resume(self, work: Work) -> None:
        """What was read before the restart has been read again, which is no work of the span."""
        pairs = zip(work, self._seen_counts, strict=True)
        self._seen_counts = [now - since for now, since in pairs]
        self._paid = work[1] - self._paid


class WhenAffordable(Rule):
    """`answer: speculate`: ahead of W, as far as the load allows."""

    why = "the newest event, less what going back is expected to cost"

    def __init__(self, load: LoadModel) -> None:
        self._load = load

    def goal_ns(self, watermark_ns: int, passed_ns: int, final_ns: int) -> int:
        load = self._load
        if watermark_ns >= load.newest_ns:
            return watermark_ns
        return max(watermark_ns, load.newest_ns - load.wait_ns(watermark_ns))
