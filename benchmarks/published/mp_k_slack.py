"""MP-K-Slack: waits for the largest delay of any event.

With `measure="next_tick"`, as published, a delay is relative to the next value of the clock, so K
exceeds the lateness by the clock's next step. With `measure="arrival"` a delay is relative to the
clock at the arrival. K never falls, so one outlier delays the stream for ever, but by at most
`max_k_ns`.

Cost: O(1) for an event. Memory: O(1).
"""

from __future__ import annotations

from typing import Final, Literal

from benchmarks.published.clocked_slack import CLOCKED, ClockedSlack
from topology.answer.waiting.policy import BEFORE_ALL
from topology.base.operator import NEVER
from topology.state.saved import BIG, optional

Measure = Literal["next_tick", "arrival"]

MP: Final = CLOCKED.with_more("published.mp", 1, k_ns=BIG, _lowest_ns=optional(BIG))


class MPKSlack(ClockedSlack):
    """A strategy that waits for the largest delay of any event, at most `max_k_ns`."""

    SHAPE = MP

    def __init__(
        self,
        *,
        measure: Measure = "next_tick",
        max_k_ns: int = 1 << 60,
        idle_ns: int = NEVER,
    ) -> None:
        super().__init__(idle_ns=idle_ns)
        self._next_tick = measure == "next_tick"
        self._max_k_ns = max_k_ns
        self.k_ns = 0
        self._lowest_ns: int | None = None  # The smallest time since the clock last moved.

    def slack_ns(self) -> int:
        return self.k_ns

    def _arrive(self, ts_ns: int, now_ns: int, moves: bool) -> None:
        if self._next_tick:
            if self._lowest_ns is None or ts_ns < self._lowest_ns:
                self._lowest_ns = ts_ns
            if not moves:
                return
            delay_ns = ts_ns - self._lowest_ns
            self._lowest_ns = None
        else:
            delay_ns = self._clock_ns - ts_ns if self._clock_ns != BEFORE_ALL else 0
        if delay_ns > self.k_ns:
            self.k_ns = min(self._max_k_ns, delay_ns)
