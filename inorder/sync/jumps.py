"""Detect jumps of the source's own clock, by a clock that never steps.

The difference between the clock that stamps events and the other clock changes slowly: by the rates
of both, at most `max_skew`. If it changes by more than `JUMP_NS` beyond that, the timestamps have
jumped. A new *segment* begins, and earlier measurements no longer apply.

The other clock is CLOCK_BOOTTIME where the system has it. The monotonic clock stops while a machine
sleeps. A clock anchored to it (`inorder.anchored_clock`) has then lost that time, which is a jump.
A step of the wall clock is not a jump of an anchored clock, whose timestamps do not follow it.

Packets and samples contain `mono_ns`, the difference at the beginning of the segment. A reader may
take any change of it for a jump.
"""

from __future__ import annotations

import threading
import time
from typing import Final

from inorder.anchored_clock import ClockNs

JUMP_NS: Final = 1_000_000
PPB: Final = 1_000_000_000
HURRIED_NS: Final = 100_000
TRIES: Final = 5


def read_steady_ns() -> int:
    """Return the time in ns of a clock that never steps.

    The time includes the machine's sleep if the system has such a clock.
    """
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    return time.monotonic_ns()


class JumpWatch:
    """A check for jumps of a clock, which several threads may share.

    Args:
        clock: The clock that stamps the events, in ns.
        max_skew_ppb: The maximum rate error of that clock, in parts per billion.
        running: A clock in ns that never steps.

    Attributes:
        segment: The number of jumps since the start.
        mono_ns: The difference of the clocks at the beginning of the segment.
    """

    def __init__(
        self, clock: ClockNs, max_skew_ppb: int, running: ClockNs = read_steady_ns
    ) -> None:
        """Read both clocks for the first time."""
        self._clock = clock
        self._running = running
        self._max_skew_ppb = max_skew_ppb
        self._guard = threading.Lock()
        self._last_ns, self._read_at_ns, self._hurried_ns = self._read()
        self.mono_ns = self._last_ns
        self.segment = 0

    def check(self) -> int:
        """Compare the clocks, begin a new segment after a jump, and return the segment's number."""
        with self._guard:
            mono_ns, at_ns, hurried_ns = self._read()
            drift_ns = (at_ns - self._read_at_ns) * self._max_skew_ppb // PPB
            vague_ns = drift_ns + self._hurried_ns + hurried_ns
            if abs(mono_ns - self._last_ns) > JUMP_NS + vague_ns:
                self.segment += 1
                self.mono_ns = mono_ns
            self._last_ns, self._read_at_ns, self._hurried_ns = mono_ns, at_ns, hurried_ns
            return self.segment

    def _read(self) -> tuple[int, int, int]:
        """Return the difference of the clocks, when it was read, and its uncertainty, all in ns."""
        best: tuple[int, int, int] | None = None
        for _ in range(TRIES):
            before_ns = self._running()
            stamp_ns = self._clock()
            after_ns = self._running()
            width_ns = after_ns - before_ns
            if best is None or width_ns < best[2]:
                best = (stamp_ns - (before_ns + after_ns) // 2, after_ns, width_ns)
            if width_ns <= HURRIED_NS:
                break
        assert best is not None
        return best
