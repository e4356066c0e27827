"""`TailSlack` for one source by its own clock: what REORDER waits where nothing is numbered.

A source alone needs no arrival clock to be compared with its stamps, so what its clock shows,
and how it drifts, is all the same here. What counts is how far behind its newest event the
others come, in two measures:

    lateness   newest time - time
    silence    the same, and what has passed since the newest arrived

both 0 for an event that is the newest itself. K and D are the q-tails of the two, and

    frontier = newest + max(-K, time since the newest arrived - D)

K serves while the source speaks, D when it falls silent. A source in order waits for
nothing. q, the budget and the cold start are those of `TailSlack`, and so is what comes too late
for any wait that is allowed, here a silence above `max_wait_ns`: it moves neither tail, and is
counted apart.

Cost: O(1) an event. Memory: two histograms.
"""

from __future__ import annotations

from topology.model.event import Event
from topology.model.operator import Figures
from topology.waiting.policy import BEFORE_ALL, FlooredSlack
from topology.waiting.tail import COLD, Allowance, Tails


class OwnTail(FlooredSlack):
    """`delta_ppm`: how many of a million events may be late."""

    __slots__ = ("_allowance", "_max_wait_ns", "_newest_at_ns", "_newest_ns", "_tails")
    FIELDS = (*FlooredSlack.FIELDS, "_newest_ns", "_newest_at_ns", "_allowance", "_tails")

    def __init__(self, delta_ppm: int, *, max_wait_ns: int) -> None:
        super().__init__()
        self._max_wait_ns = max_wait_ns
        self._allowance = Allowance(delta_ppm)
        self._tails = Tails(max_wait_ns)
        self._newest_ns = BEFORE_ALL
        self._newest_at_ns = BEFORE_ALL

    def _observe(self, event: Event, now_ns: int) -> None:
        ts_ns = event.ref_time_ns
        lateness_ns = silence_ns = 0
        if ts_ns >= self._newest_ns:
            self._newest_ns = ts_ns
            self._newest_at_ns = now_ns
        else:
            lateness_ns = self._newest_ns - ts_ns
            silence_ns = lateness_ns + now_ns - self._newest_at_ns
        self._tails.add(lateness_ns, silence_ns)
        self._allowance.events += 1

    def late(self, ts_ns: int, lateness_ns: int) -> None:
        if self._newest_ns - ts_ns + self._now_ns - self._newest_at_ns > self._max_wait_ns:
            self._allowance.beyond += 1
        else:
            self._allowance.late += 1

    def q_ppm(self) -> int:
        """What share of the events may be given up at present."""
        return self._allowance.q_ppm()

    def waits_ns(self) -> tuple[int, int]:
        """K and D."""
        if self._allowance.events < COLD:
            return self._max_wait_ns, self._max_wait_ns
        return self._tails.cut(self.q_ppm())

    def _raw_ns(self, now_ns: int) -> int:
        if self._newest_ns == BEFORE_ALL:
            return BEFORE_ALL
        k_ns, d_ns = self.waits_ns()
        return self._newest_ns + max(-k_ns, now_ns - self._newest_at_ns - d_ns)

    def deadline_ns(self, bound_ns: int, now_ns: int) -> int | None:
        if self._newest_ns == BEFORE_ALL:
            return None
        return self._newest_at_ns + bound_ns - self._newest_ns + self.waits_ns()[1]

    def newest_ns(self) -> int:
        return self._newest_ns

    def figures(self) -> Figures:
        k_ns, d_ns = self.waits_ns()
        return {**self._allowance.figures(), "lateness_ns": k_ns, "silence_ns": d_ns}
