"""Measures the cost of reading an item, for speculative detectors with a price limit.

An item is an input of a detector. Its cost (`topology.answer.budget`) is the stage's processor time
divided by the number of items that its detectors read. That time includes the merge and everything
else in the stage. It is measured over intervals of `STRETCH_NS` of processor time, and each new
interval has a weight of one quarter. The cost affects when early results are emitted, and never
which results are final. So it is not part of the state.

Other stages and partitions of the process, and the clients' threads, use the same processor,
because Python runs one thread at a time. Their work is measured, too, as a share of the elapsed
time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from topology.answer.spending import WHOLE

if TYPE_CHECKING:
    from topology.queries.detector.queries import DetectorQueries

STRETCH_NS: Final = 20_000_000
WEIGHT: Final = 4


@dataclass(eq=False)
class ItemPrice:
    """The measured cost of an item, for the speculative detectors `ahead`.

    `busy_ns` returns the processor time of the process, and `now_ns` the time of a monotonic clock.
    """

    ahead: Sequence[DetectorQueries]
    busy_ns: Callable[[], int] = time.process_time_ns
    now_ns: Callable[[], int] = time.monotonic_ns
    others_ppm: int = 0
    price_ns: int = 0
    """The measured cost in nanoseconds per item; 0 until it is known."""
    _spent_ns: int = 0
    _items: int = 0

    def __post_init__(self) -> None:
        self._since = (self.busy_ns(), self.now_ns())

    def __bool__(self) -> bool:
        """Return whether any detector is speculative, so that there is a cost to measure."""
        return bool(self.ahead)

    def add_cpu_ns(self, cpu_ns: int) -> None:
        """Add processor time of the stage, and update the cost at the end of an interval."""
        self._spent_ns += cpu_ns
        if self._spent_ns < STRETCH_NS:
            return
        items = sum(each.items for each in self.ahead)
        if items > self._items:
            price_ns = self._spent_ns // (items - self._items)
            before_ns = self.price_ns or price_ns
            self.price_ns = before_ns + (price_ns - before_ns) // WEIGHT
            self._measure_others()
            for each in self.ahead:
                each.set_costs(self.price_ns, self.others_ppm)
        self._items, self._spent_ns = items, 0

    def _measure_others(self) -> None:
        busy_ns, now_ns = self.busy_ns(), self.now_ns()
        was_busy_ns, since_ns = self._since
        self._since = (busy_ns, now_ns)
        besides_ns = max(busy_ns - was_busy_ns - self._spent_ns, 0)
        others_ppm = min(besides_ns * WHOLE // max(now_ns - since_ns, 1), WHOLE)
        self.others_ppm += (others_ppm - self.others_ppm) // WEIGHT
