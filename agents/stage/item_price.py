"""What an item of a detector costs on this machine, measured, for those that read ahead of the
merge by a price (topology.speculate.budget).

It is the processor's time of the stage by the items that its detectors read, the merge beside them
included, over stretches of `STRETCH_NS` of it, each counting for a quarter. How early is told
depends on it, and nothing that stands at last; so it is no part of the state.

Proved by: tests/agents/stage/test_item_price.py
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from topology.speculate.ahead import Ahead

STRETCH_NS: Final = 20_000_000
WEIGHT: Final = 4


class ItemPrice:
    def __init__(self, ahead: Sequence[Ahead]) -> None:
        self._ahead = ahead
        self._spent_ns = 0
        self._items = 0
        self.price_ns = 0
        """0 until it is known."""

    def __bool__(self) -> bool:
        """Whether anything is to be measured."""
        return bool(self._ahead)

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
            for each in self._ahead:
                each.items_cost(self.price_ns)
        self._items, self._spent_ns = items, 0
