"""Limits the risk of closing windows, by the quality target and by the outcomes of earlier windows.

`AccuracyBudget` keeps the share of windows that missed an event at or below `delta`:

* *threshold*: theta begins at delta. Each resolved window moves it by `rate` (delta - missed), with
  missed 0 or 1. So theta settles where the share of missed windows is delta, however good the
  model is (adaptive conformal inference). This requires that theta has no lower limit. At or below
  0 only certainty closes a window.
* *guard*: a window may be closed on probability only if the target is met in the worst case. In
  that case this window, and all closed ones whose outcome is open, have missed an event. So in
  *every* prefix of the closed windows at most delta of them missed one. This is guaranteed, not
  only expected, as long as no window misses an event after the strategy was certain that none is
  missing.

Only windows that closed as `confirmed` or `probable` count. Windows closed by idle sources, a cap
or the end do not. All numbers are integers: delta in ppm and theta in units of 2^-32.
"""

from __future__ import annotations

from typing import Final

from topology.answer.waiting.miss import ONE, to_fixed_point
from topology.answer.waiting.policy import PROBABLE, PROMISED
from topology.base.native import mypyc_attr
from topology.base.operator import Figures
from topology.state.saved import INT, Saved, Shape

MOST = to_fixed_point(0.999)
RATE = 0.005
PPM = 1_000_000


ACCURACY: Final = Shape("waiting.budget", 1, _theta=INT, _closed=INT, _missed=INT, _pending=INT)


@mypyc_attr(allow_interpreted_subclasses=True)
class AccuracyBudget(Saved):
    """A budget for the share `delta` of windows that may miss an event."""

    SHAPE = ACCURACY

    def __init__(self, delta: float, *, rate: float = RATE) -> None:
        self._delta_ppm = round(delta * PPM)
        self._up = to_fixed_point(rate * delta)
        self._down = to_fixed_point(rate)
        self._theta = self._delta_ppm * ONE // PPM
        self._closed = 0
        self._missed = 0
        self._pending = 0  # Windows that were closed on probability and whose outcome is open.

    def compute_threshold(self) -> int:
        """Return the largest risk at which the next window may close, in units of 2^-32.

        If this is 0 or less, the window may not close at any risk.
        """
        if self._delta_ppm == 0:
            return 0
        spent = self._missed + self._pending + 1
        return 0 if spent * PPM > self._delta_ppm * (self._closed + 1) else self._theta

    def note_closed(self, by: str, windows: int) -> None:
        if by in PROMISED:
            self._closed += windows
        if by == PROBABLE:
            self._pending += windows

    def note_resolved(self, missed: bool, by: str, windows: int) -> None:
        if by not in PROMISED:
            return
        if by == PROBABLE:
            self._pending -= windows
        if missed:
            self._missed += 1
            self._theta += self._up - self._down
        else:
            self._theta = min(MOST, self._theta + self._up * windows)

    def figures(self) -> Figures:
        return {
            "windows": self._closed,
            "windows_missed": self._missed,
            "windows_pending": self._pending,
            "threshold_ppm": self._theta * 1_000_000 // ONE,
        }
