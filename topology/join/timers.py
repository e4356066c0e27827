"""What is to be looked at when a frontier has passed its instant.

What is no longer kept by then is of no interest, and is thrown out once it is the larger part: at a
bound events are given up for as long as a frontier stands still.

Cost: O(log n) to add and to take.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import Final

from topology.join.rows import Owner

SPARE: Final = 1_000


class Agenda:
    """Events in a cell, by instant."""

    __slots__ = ("_heap", "_most", "_number")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Owner]] = []
        self._number = 0
        self._most = SPARE

    def add(self, instant_ns: int, owner: Owner) -> None:
        if len(self._heap) >= self._most:
            self._heap = [noted for noted in self._heap if noted[2][1].is_kept]
            heapify(self._heap)
            self._most = 2 * len(self._heap) + SPARE
        self._number += 1
        heappush(self._heap, (instant_ns, self._number, owner))

    def is_due(self, until_ns: int) -> bool:
        """`take` may give something."""
        return bool(self._heap) and self._heap[0][0] <= until_ns

    def take(self, until_ns: int) -> list[Owner]:
        """Those whose instant is at or before it, and that are kept."""
        taken = []
        heap = self._heap
        while heap and heap[0][0] <= until_ns:
            owner = heappop(heap)[2]
            if owner[1].is_kept:
                taken.append(owner)
        return taken

    def __len__(self) -> int:
        return len(self._heap)
