"""LDOP: waits for a multiple of the mean delay of events out of order.

Frontier = clock - `factor` * LD. LD is the mean of (arrival - time) over the out-of-order events
that arrived in the last `window_ns`, or 0 if there were none. The published factor is drawn at
random from a range of slacks; here it is fixed. A mean does not reflect tails: any event more than
factor * LD behind the clock is late.

Cost: O(1) amortised. Memory: the out-of-order arrivals in the window, at most `MAX_KEPT` + 1 (the
oldest are dropped first).
"""

from __future__ import annotations

from collections import deque
from typing import Final

from benchmarks.published.clocked_slack import CLOCKED, ClockedSlack
from topology.base.operator import NEVER
from topology.state.saved import BIG, INT, list_of, tuple_of

MAX_KEPT: Final = 100_000
PPM: Final = 1_000_000

MEAN_DELAYS: Final = CLOCKED.with_more(
    "published.ldop", 1, _delays=list_of(tuple_of(INT, INT), deque), _sum_ns=BIG
)


class LDOP(ClockedSlack):
    """A strategy that waits for a multiple of the mean delay of out-of-order events."""

    SHAPE = MEAN_DELAYS

    def __init__(self, window_ns: int, factor_ppm: int, *, idle_ns: int = NEVER) -> None:
        super().__init__(idle_ns=idle_ns)
        self._window_ns = window_ns
        self._factor_ppm = factor_ppm
        self._delays: deque[tuple[int, int]] = deque()  # Pairs of (arrival, delay).
        self._sum_ns = 0

    def slack_ns(self) -> int:
        if not self._delays:
            return 0
        return max(0, self._factor_ppm * self._sum_ns // (PPM * len(self._delays)))

    def _arrive(self, ts_ns: int, now_ns: int, moves: bool) -> None:
        delays = self._delays
        while delays and (delays[0][0] <= now_ns - self._window_ns or len(delays) > MAX_KEPT):
            self._sum_ns -= delays.popleft()[1]
        if ts_ns < self._clock_ns:
            delays.append((now_ns, now_ns - ts_ns))
            self._sum_ns += now_ns - ts_ns
