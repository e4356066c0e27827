"""AQ-K-Slack: scales K by a feedback loop to keep a given coverage.

Frontier = clock - ceil(alpha K). K is the largest delay of any event, as in MP-K-Slack; alpha is in
[0, 1] and starts at 1. The *coverage* of a window of `window_ns` (closed at its right end) is the
share of its events that were not late. It is measured when the frontier has passed the window's end
by L, the 0.95-quantile of the last 2,000 latenesses. An earlier measurement would overestimate it.
Each measured window moves alpha by a PD step towards `coverage`:

    err = coverage - measured;   alpha += kp err + kd (err - previous err), clamped to [0, 1]

The papers give no gains; 0.5 and 0.8 are those of a public implementation. At most `MAX_OPEN`
windows wait to be measured; beyond that the oldest is dropped. Cost: O(log LATENESSES) for an
event. Siddhi's `akslack` differs: it scales only the growth of K.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from heapq import heapify, heappop, heappush
from math import ceil
from typing import Final

from benchmarks.published.mp_k_slack import MP, MPKSlack
from topology.answer.waiting.policy import BEFORE_ALL
from topology.base.operator import NEVER, Figures
from topology.state.saved import BIG, FLOAT, INT, dict_of, list_of, optional

KP: Final = 0.5
KD: Final = 0.8
LATENESSES: Final = 2_000
PATIENCE: Final = 0.95
MAX_OPEN: Final = 100_000


AQ: Final = MP.with_more(
    "published.aq",
    1,
    alpha=FLOAT,
    _before=optional(FLOAT),
    _measured_to=BIG,
    _latenesses=list_of(INT, deque),
    _windows=dict_of(INT, list_of(INT)),
)


class AQKSlack(MPKSlack):
    """A strategy that waits for a share of the largest delay, to keep a given coverage."""

    SHAPE = AQ

    def __init__(self, window_ns: int, coverage: float, *, idle_ns: int = NEVER) -> None:
        super().__init__(idle_ns=idle_ns)
        self._window_ns = window_ns
        self._coverage = coverage
        self.alpha = 1.0
        self._before: float | None = None
        self._windows: dict[int, list[int]] = {}  # By window number: [events, late events].
        self._open: list[int] = []  # The numbers of the windows in `_windows`, as a heap.
        self._measured_to = BEFORE_ALL  # The last window that was measured.
        self._latenesses: deque[int] = deque()
        self._sorted: list[int] = []

    def slack_ns(self) -> int:
        return ceil(self.alpha * self.k_ns)

    def _window_of(self, ts_ns: int) -> int:
        return -(-ts_ns // self._window_ns)

    def _arrive(self, ts_ns: int, now_ns: int, moves: bool) -> None:
        super()._arrive(ts_ns, now_ns, moves)
        if ts_ns < self._clock_ns:
            self._note_lateness(self._clock_ns - ts_ns)
        window = self._window_of(ts_ns)
        if window > self._measured_to:
            self._count(window)
        if moves:
            self._measure(ts_ns - self.slack_ns() - self._patience_ns())

    def _count(self, window: int) -> None:
        counts = self._windows.get(window)
        if counts is not None:
            counts[0] += 1
            return
        self._windows[window] = [1, 0]
        heappush(self._open, window)
        if len(self._open) > MAX_OPEN:
            self._measured_to = heappop(self._open)
            del self._windows[self._measured_to]

    def late(self, ts_ns: int, lateness_ns: int) -> None:
        window = self._windows.get(self._window_of(ts_ns))
        if window is not None:
            window[1] += 1

    def _note_lateness(self, lateness_ns: int) -> None:
        self._latenesses.append(lateness_ns)
        insort(self._sorted, lateness_ns)
        if len(self._latenesses) > LATENESSES:
            oldest = self._latenesses.popleft()
            del self._sorted[bisect_left(self._sorted, oldest)]

    def _patience_ns(self) -> int:
        known = self._sorted
        return known[min(len(known) - 1, int(PATIENCE * len(known)))] if known else 0

    def _measure(self, until_ns: int) -> None:
        """Measure all windows that end at or before `until_ns`, in order."""
        while self._open and self._open[0] * self._window_ns <= until_ns:
            self._measured_to = heappop(self._open)
            events, late = self._windows.pop(self._measured_to)
            self._step(self._coverage - (events - late) / events)

    def _step(self, err: float) -> None:
        before = err if self._before is None else self._before
        self._before = err
        step = KP * err + KD * (err - before)
        self.alpha = min(1.0, max(0.0, self.alpha + step))

    def figures(self) -> Figures:
        return {**super().figures(), "wait_share_ppm": int(self.alpha * 1e6)}

    def derive(self) -> None:
        self._open = list(self._windows)
        heapify(self._open)
        self._sorted = sorted(self._latenesses)
