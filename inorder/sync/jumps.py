"""Whether the source's own clock has jumped: the clock that stamps, held against one that
only ever runs.

The difference of the two moves slowly: by the clocks' own rates, `max_skew` at most. If
it moves by more than `JUMP_NS` beyond that, the stamps have jumped, a new *segment*
begins, and nothing known of the old one holds.

The clock that only runs is CLOCK_BOOTTIME where there is one: the monotonic clock stops
still while a machine sleeps, and a clock anchored to it (`inorder.anchored_clock`) has
then lost that time against the world, which is a jump. A step of the wall clock is none
for such a clock: its stamps do not follow it.

`mono_ns`, which goes into packets and samples, is the difference as it was when the
segment began: a reader may take any change of it for a jump.
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


def running_ns() -> int:
    """A clock that never steps and counts the machine's sleep, where the system has one."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    return time.monotonic_ns()


class JumpWatch:
    """Usable from several threads."""

    def __init__(self, clock: ClockNs, max_skew_ppb: int, running: ClockNs = running_ns) -> None:
        self._clock = clock
        self._running = running
        self._max_skew_ppb = max_skew_ppb
        self._guard = threading.Lock()
        self._last_ns, self._read_at_ns, self._hurried_ns = self._read()
        self.mono_ns = self._last_ns
        self.segment = 0

    def check(self) -> int:
        """The segment that holds now."""
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
        """The difference, when it was read, and how uncertain it is."""
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
