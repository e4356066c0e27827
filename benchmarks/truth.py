"""Compare the output of a whole chain with the event times.

Order by corrected timestamps looks perfect if it is judged by these timestamps. Here it is judged
by the event times, which only the workload knows (`Event.record`):

* *left*: descents, that is, an event time below that of the event before it, whatever its source.
  `left_by_ms` counts those of a millisecond or more, `left_settled` those from `settled_ns` on.
* *behind*: events below the largest event time that was emitted before, unmarked. If all events of
  one source are emitted before those of another, there are few descents, but all the latter are
  behind.
* *worst*: the largest distance by which an unmarked event is behind.
* *beyond*: unmarked events that are out of order with an earlier one by more than the sum of both
  error bounds. No clock error within its bound causes that.
* *broken*: events whose event time is outside of [ref - err, ref + err].
* *late*: events marked late and passed on. They count as left and behind, but not as beyond.
* *hold*: the time from arrival until the event is emitted.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from benchmarks.harness import Columns
from benchmarks.tables import count, format_ms, format_us
from topology.base.event import DATA
from topology.base.outcome import Step

BEFORE_ALL: Final = -(1 << 80)
NS_PER_US: Final = 1_000
NS_PER_MS: Final = 1_000_000


@dataclass(slots=True)
class Truth:
    """The figures of one run, in the order in which the chain emitted its events.

    Cost: O(1) per event. Memory: one count for each microsecond of hold that occurs.
    """

    settled_ns: int = BEFORE_ALL
    released: int = 0
    left: int = 0
    left_by_ms: int = 0
    left_settled: int = 0
    behind: int = 0
    worst_ns: int = 0
    beyond: int = 0
    broken: int = 0
    late: int = 0
    _hold_ns: int = 0
    _off_ns: int = 0
    _bound_ns: int = 0
    _last_ns: int = BEFORE_ALL
    _newest_ns: int = BEFORE_ALL
    _surely_after_ns: int = BEFORE_ALL
    _holds_us: Counter[int] = field(default_factory=Counter)

    def take_step(self, step: Step) -> None:
        holds_us = self._holds_us
        for event in step.released:
            if event.kind != DATA:
                continue
            true_ns, error_ns = event.record, event.error_ns
            off_ns = abs(event.ref_time_ns - true_ns)
            self._off_ns += off_ns
            self._bound_ns += error_ns
            self.broken += off_ns > error_ns
            hold_ns = event.at_ns - event.arrival_ns
            self._hold_ns += hold_ns
            holds_us[hold_ns // NS_PER_US] += 1
            self.released += 1
            if true_ns < self._last_ns:
                self._count_descent(true_ns)
            self._last_ns = true_ns
            self.behind += true_ns < self._newest_ns
            if event.late:
                self.late += 1
            else:
                self._count_in_order(true_ns, error_ns)

    def _count_descent(self, true_ns: int) -> None:
        self.left += 1
        self.left_by_ms += true_ns <= self._last_ns - NS_PER_MS
        self.left_settled += true_ns >= self.settled_ns

    def _count_in_order(self, true_ns: int, error_ns: int) -> None:
        """Count an event that is not marked late."""
        self.worst_ns = max(self.worst_ns, self._newest_ns - true_ns)
        self._newest_ns = max(self._newest_ns, true_ns)
        self.beyond += true_ns + error_ns < self._surely_after_ns
        self._surely_after_ns = max(self._surely_after_ns, true_ns - error_ns)

    @property
    def hold_ns(self) -> float:
        """The mean hold over all events."""
        return self._hold_ns / max(1, self.released)

    def hold_quantile_ns(self, share: float) -> int:
        """Return a quantile of the hold, to the microsecond."""
        wanted = min(self.released - 1, int(share * self.released))
        for hold_us, events in sorted(self._holds_us.items()):
            wanted -= events
            if wanted < 0:
                return hold_us * NS_PER_US
        return 0

    @property
    def off_ns(self) -> float:
        """The mean distance between corrected timestamp and event time, over all events."""
        return self._off_ns / max(1, self.released)

    @property
    def bound_ns(self) -> float:
        """The mean error bound over all events."""
        return self._bound_ns / max(1, self.released)


COLUMNS: Final[Columns] = {
    "left": lambda one, _: count(one.left),
    "by 1 ms": lambda one, _: count(one.left_by_ms),
    "settled": lambda one, _: count(one.left_settled),
    "behind": lambda one, _: count(one.behind),
    "worst ms": lambda one, _: format_ms(one.worst_ns),
    "beyond": lambda one, _: count(one.beyond),
    "broken": lambda one, _: count(one.broken),
    "off us": lambda one, _: format_us(one.off_ns),
    "bound us": lambda one, _: format_us(one.bound_ns),
    "late": lambda one, _: count(one.late),
    "mean ms": lambda one, _: format_ms(one.hold_ns),
    "p99 ms": lambda one, _: format_ms(one.hold_quantile_ns(0.99)),
}
