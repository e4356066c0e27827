"""Measures what an item of a detector costs on this machine, for detectors that read ahead of the
merge as far as a price allows (topology.answer.budget).

It is the processor's time of the stage by the items that its detectors read, the merge and whatever
else is in the stage included, over stretches of `STRETCH_NS` of it, each counting for a quarter. It
decides how early results are emitted, and never which of them are final; so it is no part of the
state.

Other stages and partitions of the process, and the clients' threads, take of the same processor,
for Python runs one thread at a time: their work is measured, too, as a share of the time that
passed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from topology.answer.spending import WHOLE

if TYPE_CHECKING:
    from topology.detector.queries import DetectorQueries

STRETCH_NS: Final = 20_000_000
WEIGHT: Final = 4


@dataclass(eq=False)
class ItemPrice:
    """`busy_ns`: the processor's time of the process; `now_ns`: a clock."""

    ahead: Sequence[DetectorQueries]
    busy_ns: Callable[[], int] = time.process_time_ns
    now_ns: Callable[[], int] = time.monotonic_ns
    others_ppm: int = 0
    price_ns: int = 0
    """0 until it is known."""
    _spent_ns: int = 0
    _items: int = 0

    def __post_init__(self) -> None:
        self._since = (self.busy_ns(), self.now_ns())

    def __bool__(self) -> bool:
        """Whether anything is to be measured."""
        return bool(self.ahead)

    def spent(self, cpu_ns: int) -> None:
        """The stage has worked for so long."""
        self._spent_ns += cpu_ns
        if self._spent_ns < STRETCH_NS:
            return
        items = sum(each.items for each in self.ahead)
        if items > self._items:
            price_ns = self._spent_ns // (items - self._items)
            before_ns = self.price_ns or price_ns
            self.price_ns = before_ns + (price_ns - before_ns) // WEIGHT
            self._look_around()
            for each in self.ahead:
                each.items_cost(self.price_ns, self.others_ppm)
        self._items, self._spent_ns = items, 0

    def _look_around(self) -> None:
        busy_ns, now_ns = self.busy_ns(), self.now_ns()
        was_busy_ns, since_ns = self._since
        self._since = (busy_ns, now_ns)
        besides_ns = max(busy_ns - was_busy_ns - self._spent_ns, 0)
        others_ppm = min(besides_ns * WHOLE // max(now_ns - since_ns, 1), WHOLE)
        self.others_ppm += (others_ppm - self.others_ppm) // WEIGHT
