"""What an item of a detector costs on this machine, measured, for those that read ahead of the
merge by a price (topology.speculate.budget).

It is the processor's time of the stage by the items that its detectors read, the merge beside them
included, over stretches of `STRETCH_NS` of it, each counting for a quarter. How early is told
depends on it, and nothing that stands at last; so it is no part of the state.

What the process does besides, other stages and partitions, the clients' threads, takes of the
same processor, for Python runs one thread at a time: it is told, too, as a share of the time that
passed.

Proved by: tests/agents/stage/test_item_price.py
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final

from topology.flow.answers import Answers
from topology.speculate.ahead import Ahead
from topology.speculate.policy import WHOLE

STRETCH_NS: Final = 20_000_000
WEIGHT: Final = 4


class ItemPrice:
    """`busy_ns`: the processor's time of the process; `now_ns`: a clock."""

    def __init__(
        self,
        ahead: Sequence[Ahead | Answers],
        busy_ns: Callable[[], int] = time.process_time_ns,
        now_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._ahead = ahead
        self._busy_ns = busy_ns
        self._now_ns = now_ns
        self._since = (busy_ns(), now_ns())
        self.others_ppm = 0
        self._spent_ns = 0
        self._items = 0
        self.price_ns = 0
        """0 until it is known."""

    def __bool__(self) -> bool:
        """Whether anything is to be measured."""
        return bool(self._ahead)

    def now_of(self, ahead: Sequence[Ahead | Answers]) -> None:
        """Others read ahead now, as live queries come and go; the price stands."""
        if not self._ahead:
            self._since = (self._busy_ns(), self._now_ns())
        self._ahead = ahead
        self._items, self._spent_ns = sum(each.items for each in ahead), 0
        for each in ahead if self.price_ns else ():
            each.items_cost(self.price_ns, self.others_ppm)

    def spent(self, cpu_ns: int) -> None:
        """The stage has worked for so long."""
        self._spent_ns += cpu_ns
        if self._spent_ns < STRETCH_NS:
            return
        items = sum(each.items for each in self._ahead)
        if items > self._items:
            price_ns = self._spent_ns // (items - self._items)
            before_ns = self.price_ns or price_ns
            self.price_ns = before_ns + (price_ns - before_ns) // WEIGHT
            self._look_around()
            for each in self._ahead:
                each.items_cost(self.price_ns, self.others_ppm)
        self._items, self._spent_ns = items, 0

    def _look_around(self) -> None:
        busy_ns, now_ns = self._busy_ns(), self._now_ns()
        was_busy_ns, since_ns = self._since
        self._since = (busy_ns, now_ns)
        besides_ns = max(busy_ns - was_busy_ns - self._spent_ns, 0)
        others_ppm = min(besides_ns * WHOLE // max(now_ns - since_ns, 1), WHOLE)
        self.others_ppm += (others_ppm - self.others_ppm) // WEIGHT
