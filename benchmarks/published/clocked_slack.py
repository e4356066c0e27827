"""Sets the frontier to the largest event time less a wait K, which each method chooses.

The largest accepted event time is the *clock*. Frontier = clock - K, inclusive; the frontier never
moves back.

If the clock has not advanced for `idle_ns`, the frontier advances by the time since then. So the
end of a stream is emitted, but a source that only stalled may find its events late.

Cost: O(1) for an event. Memory: O(1).
"""

from __future__ import annotations

from typing import Final

from topology.answer.waiting.policy import BEFORE_ALL, FLOORED, FlooredSlack
from topology.base.event import Event
from topology.base.native import mypyc_attr
from topology.base.operator import NEVER, Figures
from topology.state.saved import BIG

CLOCKED: Final = FLOORED.with_more("waiting.clocked", 1, _clock_ns=BIG, _moved_ns=BIG)


@mypyc_attr(allow_interpreted_subclasses=True)
class ClockedSlack(FlooredSlack):
    """A strategy whose frontier is the clock less a slack, which each subclass computes."""

    SHAPE = CLOCKED

    def __init__(self, *, idle_ns: int = NEVER) -> None:
        super().__init__()
        self._idle_ns = idle_ns
        self._clock_ns = BEFORE_ALL
        self._moved_ns = BEFORE_ALL

    def slack_ns(self) -> int:
        """Return the current wait K."""
        raise NotImplementedError

    def _arrive(self, ts_ns: int, now_ns: int, moves: bool) -> None:
        """Handle an arrival; if it `moves` the clock, the clock advances to `ts_ns` afterwards."""

    def _observe_event(self, event: Event, now_ns: int) -> None:
        ts_ns = event.ref_time_ns
        moves = ts_ns > self._clock_ns
        self._arrive(ts_ns, now_ns, moves)
        if moves:
            self._clock_ns = ts_ns
            self._moved_ns = now_ns

    def _find_frontier_ns(self, now_ns: int) -> int:
        if self._clock_ns == BEFORE_ALL:
            return BEFORE_ALL
        still_ns = now_ns - self._moved_ns
        if still_ns >= self._idle_ns:
            return self._clock_ns - self.slack_ns() + still_ns
        return self._clock_ns - self.slack_ns()

    def deadline_ns(self, bound_ns: int, now_ns: int) -> int | None:
        if self._clock_ns == BEFORE_ALL or self._idle_ns == NEVER:
            return None
        return self._moved_ns + max(self._idle_ns, bound_ns + self.slack_ns() - self._clock_ns)

    def newest_ns(self) -> int:
        return self._clock_ns

    def figures(self) -> Figures:
        return {"slack_ns": self.slack_ns()}
