"""A clock for stamps that no step of the wall clock disturbs.

It reads the wall clock once and from then on adds what the monotonic clock has
run: stamps of one producer never go back and never jump. What the wall clock is
wrong by, and what it is later corrected by, is an offset of the source's clock, which
the reader's clock estimation measures; a jump in the middle would defeat it.
"""

from __future__ import annotations

import time
from collections.abc import Callable

ClockNs = Callable[[], int]


class AnchoredClock:
    """Call it for the time in ns since the epoch. Both sources are in ns."""

    def __init__(
        self, wall_ns: ClockNs = time.time_ns, monotonic_ns: ClockNs = time.monotonic_ns
    ) -> None:
        self._monotonic_ns = monotonic_ns
        self._anchor_ns = wall_ns() - monotonic_ns()

    def __call__(self) -> int:
        return self._anchor_ns + self._monotonic_ns()
