"""Waits for the mean delay of all events: BL-AD of the ProbSlack paper.

The frontier is the arrival clock less the mean delay, rounded up to a whole ns.
"""

from __future__ import annotations

from typing import Final

from topology.answer.waiting.policy import BEFORE_ALL, FLOORED, FlooredSlack
from topology.base.event import Event
from topology.base.native import mypyc_attr
from topology.state.saved import BIG, INT

MEAN_DELAY: Final = FLOORED.with_more(
    "published.mean_delay", 1, _newest_ns=BIG, _events=INT, _sum_ns=BIG
)


@mypyc_attr(allow_interpreted_subclasses=True)
class AverageDelay(FlooredSlack):
    """A strategy that waits for the mean delay.

    Cost: O(1) for an event. Memory: O(1).
    """

    SHAPE = MEAN_DELAY

    def __init__(self) -> None:
        super().__init__()
        self._newest_ns = BEFORE_ALL
        self._events = 0
        self._sum_ns = 0

    def _observe_event(self, event: Event, now_ns: int) -> None:
        self._newest_ns = max(self._newest_ns, event.ref_time_ns)
        self._events += 1
        self._sum_ns += now_ns - event.ref_time_ns

    def _wait_ns(self) -> int:
        return -(-self._sum_ns // self._events)

    def _find_frontier_ns(self, now_ns: int) -> int:
        return BEFORE_ALL if self._newest_ns == BEFORE_ALL else now_ns - self._wait_ns()

    def deadline_ns(self, bound_ns: int, now_ns: int) -> int | None:
        return None if self._newest_ns == BEFORE_ALL else bound_ns + self._wait_ns()

    def newest_ns(self) -> int:
        return self._newest_ns
