"""K-SLACK: how long to wait for late events where nothing but their times is known.

The published way (section 3.2), to be compared with; the engine's own frontier is MERGE's, which
waits for no more than what may still come, and tells what is late by numbers and not by a guess.

`clk` is the newest time of an event of a clock type. When it rises, K becomes the largest delay, up
to it, of all that came since it last rose. All up to `clk - K` is final. K does not shrink.

Two decisions where the paper's text, figures and listings differ: the delay is measured at the next
rise of the clock (its figures 4 and 8), not on arrival (algorithm 1), else it is too small; and
`ts + K <= clk` is final (its text), not `<` (algorithm 2). An event that comes below raises K and
is late. K begins at `initial_ns`: with 0 the first late events are lost to order.

Cost: O(1).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from topology.model.operator import NEVER

BEFORE_ALL: Final = -NEVER


class KSlack:
    """`clock_types`: none for all. `max_ns` bounds K."""

    def __init__(
        self, clock_types: Collection[str] = (), initial_ns: int = 0, max_ns: int = NEVER
    ) -> None:
        self._clock_types = frozenset(clock_types)
        self._max_ns = max_ns
        self._oldest_ns: int = NEVER
        self.k_ns = initial_ns
        self.clock_ns: int = BEFORE_ALL
        """X: the newest time that is vouched for as now."""

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
        """F: nothing at or before it comes any more, if K holds."""
        return self.clock_ns - self.k_ns if self.clock_ns > BEFORE_ALL else BEFORE_ALL
