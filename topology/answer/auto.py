"""AUTO: three answers of one detector, compared, for `answer: auto` (`choice`).

    final       reads up to where nothing changes any more: nothing is taken back, the longest wait
    early       reads as far as MERGE releases events: what comes behind W has its key read again
    speculate   reads up to the newest event less the shortest wait that is granted (`budget`)

The *wait* of an answer is how far behind the newest event it reads, a mean that moves by an eighth
in a span. The *price* of `early` follows from how far behind W late events came, as the price of a
wait does from how far they came behind the newest event; `speculate` pays both. The *changed* share
is known where the query sets a bound for it (`stability`).

A detector with a `correct` takes late events in by it. Then a late event is not reckoned to cost
more than `CORRECTION_STEPS`, as long as `correct` takes most of them.

What is kept of the past fades as in `budget`. Memory: some ten numbers.
"""

from __future__ import annotations

from typing import Final

from topology.answer.budget import FADES, UNIT, Budget
from topology.answer.choice import Choice, Way
from topology.answer.rules import EARLY, FINAL, SPECULATE
from topology.answer.spending import WHOLE, Load
from topology.answer.stability import Stability
from topology.model.operator import NEVER, Plain
from topology.model.saved import Saved

MEANS: Final = 8
CORRECTION_STEPS: Final = 4
"""What taking a late event in by `correct` is reckoned to cost, in steps."""


class AutoAnswer(Saved):
    """`corrects`: the detector has a `correct`."""

    FIELDS = ("choice", "_waits_ns", "_late_ns", "_behind_ns", "_spans", "_taken", "_refused")

    def __init__(
        self,
        budget: Budget,
        stability: Stability | None,
        withdrawn_ppm: int | None,
        *,
        corrects: bool,
    ) -> None:
        self.choice = Choice(EARLY, withdrawn_ppm)
        self._budget = budget
        self._stability = stability
        self._corrects = corrects
        self._waits_ns = [-1, -1, -1]
        self._late_ns = 0
        self._behind_ns = 0
        self._spans = 0
        self._taken = 0
        self._refused = 0
        self._cap()

    @property
    def answer(self) -> str:
        return self.choice.answer

    def note_late(self, behind_ns: int) -> None:
        """An event has come so far behind W."""
        self._late_ns = max(self._late_ns, behind_ns)

    def settle(self) -> None:
        """An instant is over: what came in it is read again once."""
        if self._late_ns:
            self._behind_ns += self._late_ns * UNIT
            self._late_ns = 0

    def weigh(
        self,
        now_ns: int,
        load: Load,
        ahead_ns: int,
        final_wait_ns: int,
        items: int,
        took: list[int],
    ) -> None:
        """A span is over, and the budget has weighed it. `took`: late events that `correct` took,
        and did not."""
        self._spans += UNIT
        self._taken += took[0] * UNIT
        self._refused += took[1] * UNIT
        self._cap()
        budget = self._budget
        waits_ns = (final_wait_ns, ahead_ns, budget.wait_ns(ahead_ns))
        for at, wait_ns in enumerate(waits_ns):
            before_ns = self._waits_ns[at]
            if before_ns < 0 or wait_ns >= NEVER or before_ns >= NEVER:
                self._waits_ns[at] = wait_ns
            else:
                self._waits_ns[at] += (wait_ns - before_ns) // MEANS
        self.choice.weigh(now_ns, self._ways(load, ahead_ns, items), budget.room_ppm)
        self._behind_ns -= -(-self._behind_ns // FADES)
        self._spans -= -(-self._spans // FADES)
        self._taken -= -(-self._taken // FADES)
        self._refused -= -(-self._refused // FADES)

    def _ways(self, load: Load, ahead_ns: int, items: int) -> list[Way]:
        final_ns, merged_ns, wait_ns = self._waits_ns
        price_ppm = self._price_ppm(load, items)
        changed_ppm = ahead_changed_ppm = 0
        if self._stability is not None:
            changed_ppm = self._stability.late_ppm
            stands_ppm = self._stability.of(self._budget.wait_ns(ahead_ns), ahead_ns)
            ahead_changed_ppm = max(WHOLE - stands_ppm, changed_ppm)
        return [
            Way(FINAL, max(final_ns, merged_ns), 0, 0),
            Way(EARLY, merged_ns, price_ppm, changed_ppm),
            Way(
                SPECULATE,
                min(wait_ns, merged_ns),
                price_ppm + self._budget.price_ppm,
                ahead_changed_ppm,
            ),
        ]

    def _price_ppm(self, load: Load, items: int) -> int:
        """What late events behind W cost, read again."""
        if load.span_ns <= 0 or not items:
            return 0
        step_ns = load.first_ns // items
        again_ns = self._behind_ns * items * step_ns * self._budget.share_ppm
        return again_ns // (load.span_ns * load.span_ns * max(self._spans, UNIT))

    def _cap(self) -> None:
        takes = self._corrects and self._taken >= self._refused
        self._budget.most_steps = CORRECTION_STEPS if takes else 0

    def restore(self, state: Plain) -> None:
        super().restore(state)
        self._cap()
