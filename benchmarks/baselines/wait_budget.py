"""The dual of a promised accuracy: the mean wait is given, misses are made as few as it allows.

No query can ask for it; it shows what `RiskSlack` would do with a budget of waiting.
"""

from __future__ import annotations

from topology.model.operator import Figures
from topology.waiting.budget import AccuracyBudget
from topology.waiting.miss import ONE, share
from topology.waiting.risk import RiskSlack


class WaitBudget(AccuracyBudget):
    """Mean wait at most `wait_ns`: theta <- theta + rate (wait of the window - wait_ns) / every_ns,
    within 0 and 1; while the mean is above it, a window closes `wait_ns` after its end. `wait_ns`
    may be negative."""

    __slots__ = ("_every_ns", "_rate", "_wait_ns", "_waited_ns")
    FIELDS = (*AccuracyBudget.FIELDS, "_waited_ns")

    def __init__(self, wait_ns: int, every_ns: int, *, rate: float = 0.002) -> None:
        super().__init__(1.0, guard="none")
        self._wait_ns = wait_ns
        self._every_ns = every_ns
        self._rate = share(rate)
        self._theta = 0
        self._waited_ns = 0

    def forced_ns(self, bound_ns: int) -> int | None:
        if self._waited_ns > self._wait_ns * self._closed:
            return bound_ns + self._wait_ns
        return None

    def closed(self, bound_ns: int, now_ns: int, by: str, windows: int) -> None:
        super().closed(bound_ns, now_ns, by, windows)
        waited_ns = now_ns - bound_ns
        self._waited_ns += waited_ns * windows
        moved = self._theta + self._rate * (waited_ns - self._wait_ns) * windows // self._every_ns
        self._theta = min(ONE, max(0, moved))

    def resolved(self, missed: bool, by: str, windows: int) -> None:
        """Misses do not matter here."""

    def figures(self) -> Figures:
        return {**super().figures(), "wait_ns": self._waited_ns // max(1, self._closed)}


class WaitingRisk(RiskSlack):
    """`RiskSlack` on a `WaitBudget`: a window also closes when the budget calls for it."""

    def __init__(self, budget: WaitBudget, *, period: int, step_ns: int) -> None:
        super().__init__(budget, period=period, step_ns=step_ns)
        self._waits = budget

    def _weighs(self, bound_ns: int, now_ns: int) -> bool:
        forced_ns = self._waits.forced_ns(bound_ns)
        if forced_ns is not None and now_ns >= forced_ns:
            return True
        return super()._weighs(bound_ns, now_ns)

    def deadline_ns(self, bound_ns: int, now_ns: int) -> int | None:
        due_ns = super().deadline_ns(bound_ns, now_ns)
        forced_ns = self._waits.forced_ns(bound_ns)
        if forced_ns is None or forced_ns <= now_ns:
            return due_ns
        return forced_ns if due_ns is None else min(due_ns, forced_ns)
