"""Schedules the times at which keys must be examined again, with a lazy heap.

A key is armed for one instant: the earliest one requested since the key was last due. If a key is
armed for an earlier instant, or disarmed, its old entry stays in the heap and has no effect. Such
entries are removed when they reach the top of the heap, or when they are more than half of it.

So a key that is armed again and again need not be moved each time. When its first instant is due,
the key is taken out, examined, and armed for a later one.

Cost: O(log keys) to arm a key and to take it out, amortized; O(1) to disarm it, and to read
`next_ns`. Memory: at most two entries for each armed key, and `SPARE`. Nothing here is saved as
state: after a restore, the owner arms the keys.

`topology.base.lazy_heap` is for names whose keys are in another table, and says which heaps of the
core are neither.
"""

from __future__ import annotations

from collections.abc import Hashable
from heapq import heapify, heappop, heappush
from typing import Final, Generic, TypeVar

from topology.base.operator import NEVER

K = TypeVar("K", bound=Hashable)

SPARE: Final = 1_000
"""The size of the heap up to which entries without effect are not removed."""


class Timers(Generic[K]):
    """A set of keys, each armed for an instant.

    No key is due before `next_ns`, which may be too early if the first key was disarmed.
    """

    __slots__ = ("_armed", "_heap", "_most", "_serial", "next_ns")

    def __init__(self) -> None:
        self._armed: dict[K, int] = {}
        self._heap: list[tuple[int, int, K]] = []
        self._most = SPARE
        self._serial = 0
        """The serial number of the last entry. Serial numbers prevent comparisons of keys."""
        self.next_ns: int = NEVER

    def arm(self, key: K, at_ns: int) -> None:
        """Arm the key for `at_ns`, unless it is armed for an earlier instant."""
        armed, heap = self._armed, self._heap
        known = len(armed)
        # Most keys are new, and `setdefault` hashes them only once.
        armed_ns = armed.setdefault(key, at_ns)
        if len(armed) == known:
            if armed_ns <= at_ns:
                return
            armed[key] = at_ns
        self._serial += 1
        heappush(heap, (at_ns, self._serial, key))
        if at_ns < self.next_ns:
            self.next_ns = at_ns
        if len(heap) > self._most:
            self._compact()

    def disarm(self, key: K) -> None:
        """Disarm the key; do nothing if it is not armed."""
        self._armed.pop(key, None)

    def due(self, before_ns: int) -> list[K]:
        """Remove and return the keys whose instant is before `before_ns`.

        They are in the order of their instants, and for equal instants in the order of arming.
        """
        taken: list[K] = []
        if self.next_ns >= before_ns:
            return taken
        heap, armed = self._heap, self._armed
        while heap and heap[0][0] < before_ns:
            at_ns, _, key = heappop(heap)
            armed_ns = armed.pop(key, None)
            if armed_ns == at_ns:
                taken.append(key)
            elif armed_ns is not None:
                armed[key] = armed_ns
        self.next_ns = heap[0][0] if heap else NEVER
        return taken

    def _compact(self) -> None:
        """Remove the entries that have no effect.

        One entry remains for each armed key. The next removal comes only after the heap has
        doubled, so it costs O(1) for each removed entry.
        """
        armed = self._armed
        self._heap = [entry for entry in self._heap if armed.get(entry[2]) == entry[0]]
        heapify(self._heap)
        self._most = 2 * len(self._heap) + SPARE
        self.next_ns = self._heap[0][0] if self._heap else NEVER
