"""Provide a clock for timestamps that ignores steps of the wall clock.

It reads the wall clock once and then adds the elapsed time of the monotonic clock. So the
timestamps of one producer never go back and never jump. An error of the wall clock at the start
remains a constant offset of the source's clock, even if the wall clock is corrected later. A stage
with CLOCK estimates that offset; a jump would spoil the estimate.
"""

from __future__ import annotations

import time
from collections.abc import Callable

ClockNs = Callable[[], int]


class AnchoredClock:
    """A clock that never steps; a call returns the time in ns since 1970.

    Args:
        wall_ns: The wall clock, in ns since 1970. It is read once.
        monotonic_ns: A clock that never goes back, in ns.
    """

    def __init__(
        self, wall_ns: ClockNs = time.time_ns, monotonic_ns: ClockNs = time.monotonic_ns
    ) -> None:
        """Read both clocks once."""
        self._monotonic_ns = monotonic_ns
        self._anchor_ns = wall_ns() - monotonic_ns()

    def __call__(self) -> int:
        """Return the time in ns since 1970."""
        return self._anchor_ns + self._monotonic_ns()
