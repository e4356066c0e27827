"""Decide by K-SLACK how long to wait for late events if only their times are known.

This is the published method (section 3.2), for comparison. The engine's own frontier is that of
MERGE. It waits only for events that may still arrive, and recognizes late events by numbers, not by
a guess.

`clk` is the newest time of an event of a clock type. When it advances, K becomes the largest delay
before `clk` of all events since it last advanced. All times up to `clk - K` are final. K never
shrinks.

The paper's text, figures and listings differ in two points. The delay is measured at the next
advance of the clock (its figures 4 and 8). On arrival (algorithm 1) it would be too small. And `ts
+ K <= clk` is final (its text), not `<` (algorithm 2). An event below that raises K and is late. K
begins at `initial_ns`. If that is 0, the first late events cannot be ordered.

The cost is O(1) per event.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from topology.base.operator import NEVER

BEFORE_ALL: Final = -NEVER


class KSlack:
    """The clock and the K of a stream.

    `clock_types` are the types that advance the clock; if empty, all do. `max_ns` bounds K.
    """

    def __init__(
        self, clock_types: Collection[str] = (), initial_ns: int = 0, max_ns: int = NEVER
    ) -> None:
        self._clock_types = frozenset(clock_types)
        self._max_ns = max_ns
        self._oldest_ns: int = NEVER
        self.k_ns = initial_ns
        self.clock_ns: int = BEFORE_ALL
        """X, the newest time of a clock type so far, which counts as the present."""

    def observe(self, type_: str, time_ns: int) -> None:
        self._oldest_ns = min(self._oldest_ns, time_ns)
        if self._clock_types and type_ not in self._clock_types:
            return
        if time_ns <= self.clock_ns:
            return
        self.clock_ns = time_ns
        self.k_ns = min(max(self.k_ns, time_ns - self._oldest_ns), self._max_ns)
        self._oldest_ns = NEVER

    @property
    def final_ns(self) -> int:
        """F, the time at or before which no more events arrive, if K is large enough."""
        return self.clock_ns - self.k_ns if self.clock_ns > BEFORE_ALL else BEFORE_ALL
