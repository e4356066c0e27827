"""When to look at a key again, by the frontier: may be too early, never too late.

One instant per key, the earliest asked for; an entry of the heap that is not its key's own any
more counts for nothing. Cost O(log keys) per change.
"""

from __future__ import annotations

from heapq import heappop, heappush


class Due:
    """Keys by instant."""

    __slots__ = ("_heap", "_instants")

    def __init__(self) -> None:
        self._heap: list[tuple[int, str]] = []
        self._instants: dict[str, int] = {}

    def add(self, key: str, instant_ns: int) -> None:
        known_ns = self._instants.get(key)
        if known_ns is None or instant_ns < known_ns:
            self._instants[key] = instant_ns
            heappush(self._heap, (instant_ns, key))

    def first_ns(self) -> int | None:
        """The next instant, or one before it."""
        return self._heap[0][0] if self._heap else None

    def take_before(self, limit_ns: int) -> set[str]:
        """The keys that are due before the instant; they have to be added again."""
        taken: set[str] = set()
        heap = self._heap
        while heap and heap[0][0] < limit_ns:
            instant_ns, key = heappop(heap)
            if self._instants.get(key) == instant_ns:
                del self._instants[key]
                taken.add(key)
        return taken
