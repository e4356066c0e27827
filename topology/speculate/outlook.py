"""OUTLOOK: the newest event, what lies between it and W, and how much of that is read.

What late events and the work cost is weighed a span at a time (`budget`); where a query says which
share of its early results may be withdrawn, so is that (`stands`). A span is over with the first
instant of a later one in which an event comes: in which instants time alone passes follows from how
the input was cut.

The core has no clock: work is counted, and an item costs `STEP_NS`, or what the driver has measured
on this machine.

Proved by: tests/topology/speculate/test_outlook.py, tests/topology/speculate/test_stands.py
"""

from __future__ import annotations

from typing import Any, Final

from topology.model.operator import NEVER, Figures, Plain
from topology.query.frontier import NOT_YET
from topology.query.numbers import packed, unpacked
from topology.speculate.auto import AutoAnswer, counted
from topology.speculate.budget import SPAN_NS, Budget
from topology.speculate.config import SPECULATE
from topology.speculate.cursor import Counts
from topology.speculate.mend import gone_back
from topology.speculate.policy import WHOLE, Load
from topology.speculate.stands import Standing

STEP_NS: Final = 4_000
SNAPSHOT_NS: Final = 400
BUDGET: Final = "budget"
COUNTED: Final = "counted"
STANDING: Final = "standing"
CHOSEN: Final = "chosen"
UNPAID: Final = "unpaid"
COUNTS: Final = 5
QUIET: Final = -1
"""No event has come in the instant that is open."""


class Outlook:
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
        self.standing: Standing | None = None
        if withdrawn_ppm is not None:
            self.standing = Standing(self.budget.hits_ppm)
            self.budget.stand_at_least(WHOLE - withdrawn_ppm, self.standing)
        self.auto: AutoAnswer | None = None
        if is_auto:
            self.auto = AutoAnswer(self.budget, self.standing, withdrawn_ppm, corrects=corrects)
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
        """What the driver has measured: what an item costs on this machine, and what the processor
        does besides."""
        self._step_ns = max(step_ns, 1)
        self.budget.others_ppm = others_ppm

    def hear(self, ref_ns: int, at_ns: int) -> None:
        """An event of that time has come at that instant."""
        self._late_ns = max(self._late_ns, self.newest_ns - ref_ns, 0)
        if self.newest_ns < ref_ns <= at_ns + self._max_ahead_ns:
            self.newest_ns = ref_ns

    def hear_of(self, time_ns: int) -> None:
        """A result of that time has come where had been read."""
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
        """How far is waited, which share of what the merge waits that is (alpha), and how much
        sooner than behind the merge it is read: all 0 where it is not read ahead."""
        ahead_ns = self.ahead_ns(watermark_ns) if is_ahead else 0
        wait_ns = self.budget.wait_ns(ahead_ns)
        alpha_ppm = wait_ns * WHOLE // ahead_ns if ahead_ns else 0
        return {"wait_ns": wait_ns, "alpha_ppm": alpha_ppm, "won_ns": ahead_ns - wait_ns}

    def settle(self, now_ns: int, counts: Counts, watermark_ns: int, final_ns: int) -> None:
        """An instant is over."""
        late_ns, self._late_ns = self._late_ns, QUIET
        if late_ns == QUIET:
            return
        steps = gone_back(counts)
        self.budget.spending.spend((steps - self._paid) * self._step_ns)
        self._paid = steps
        if self.auto is not None:
            self.auto.settle()
        if late_ns:
            self.budget.hear(late_ns)
        if now_ns // SPAN_NS > self._span:
            self._weigh(now_ns, counts, watermark_ns, final_ns)

    def _weigh(self, now_ns: int, counts: Counts, watermark_ns: int, final_ns: int) -> None:
        """A span is over, or several of them: what did it cost?"""
        passed = now_ns // SPAN_NS - self._span
        is_first = not self._span
        self._span += passed
        first, again, snapshots, *took = self._since(counts)
        self._seen_counts = counted(counts)
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
        if self.standing is not None:
            self.standing.fade()

    def _since(self, counts: Counts) -> list[int]:
        """What was counted since the last span was over."""
        pairs = zip(counted(counts), self._seen_counts, strict=True)
        return [new - old for new, old in pairs]

    def explain(self, wait_ns: int, watermark_ns: int) -> dict[str, Any]:
        """What going back costs, and what it may, of a processor; how likely results that are told
        now stand, where that is asked; how it is answered, where that is chosen."""
        budget, standing = self.budget, self.standing
        said: dict[str, Any] = {
            "price_ppm": budget.price_ppm,
            "room_ppm": budget.room_ppm,
            "first_ppm": budget.first_ppm,
            "others_ppm": budget.others_ppm,
            "reach_ns": budget.spending.reach_ns,
            "left_ns": budget.spending.left_ns,
        }
        if standing is not None:
            said["stands_ppm"] = standing.of(wait_ns, self.ahead_ns(watermark_ns))
        if self.auto is not None:
            said["auto"] = self.auto.choice.explain()
        return said

    # -- state: two parts, as they stand in that of the query --------------------------------------

    def place(self) -> list[Plain]:
        return [packed(self.newest_ns), self._late_ns, self._span]

    def known(self, counts: Counts) -> Plain:
        """By name, for what a query's file asks may change between two runs."""
        known: dict[str, Plain] = {
            BUDGET: self.budget.snapshot(),
            COUNTED: self._since(counts),
            UNPAID: gone_back(counts) - self._paid,
        }
        if self.standing is not None:
            known[STANDING] = self.standing.snapshot()
        if self.auto is not None:
            known[CHOSEN] = self.auto.snapshot()
        return known

    def restore(self, place: list[Plain], known: Plain) -> None:
        self.newest_ns, self._late_ns, self._span = unpacked(place[0]), place[1], place[2]
        if isinstance(known, list):
            known = _by_name(known)
        self.budget.restore(known[BUDGET])
        self._seen_counts = known[COUNTED]
        self._paid = known.get(UNPAID, 0)
        if self.standing is not None and STANDING in known:
            self.standing.restore(known[STANDING])
        if self.auto is not None and CHOSEN in known:
            self.auto.restore(known[CHOSEN])

    def resume(self, counts: Counts) -> None:
        """What was read before the restart has been read again, which is no work of the span."""
        pairs = zip(counted(counts), self._seen_counts, strict=True)
        self._seen_counts = [now - since for now, since in pairs]
        self._paid = gone_back(counts) - self._paid


def _by_name(parts: list[Plain]) -> dict[str, Plain]:
    """As earlier versions wrote it down: two parts of the budget; four numbers of what stands; what
    was chosen, with what was counted."""
    known: dict[str, Plain] = {BUDGET: parts[:2], COUNTED: [0] * COUNTS}
    for each in parts[2:]:
        if len(each) == 2:
            known[CHOSEN], known[COUNTED] = each
        else:
            known[STANDING] = each
    return known
