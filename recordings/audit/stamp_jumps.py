"""Find jumps of one source's clock in its own timestamps, for records without arrival times.

Without arrival times nobody can compare clocks. A list in order of time shows nothing about them,
and a source may be silent or send late for long. Three things only a wrong clock does. Duplicates,
and records with a smaller number than one before them, do not count.

* A timestamp is ahead of a later one by more than `AHEAD_NS`, and also of those before.
* A timestamp is back by more than `BACK_NS`, which no record is late.
* Timestamps change from before the year 2000 to after it, as those of a device without a battery.
"""

from __future__ import annotations

from typing import Final

from recordings.plausible import OLDEST_NS, YEAR_NS

AHEAD_NS: Final = 86_400 * 10**9
BACK_NS: Final = YEAR_NS


class StampJumps:
    """The timestamps of one source; `count` is the number of jumps."""

    __slots__ = ("_last_ns", "_usual_ns", "count")

    def __init__(self) -> None:
        self.count = 0
        self._last_ns: int | None = None
        self._usual_ns: int | None = None
        """The timestamp before a step ahead, until timestamps are back near it."""

    def note(self, ts_ns: int) -> None:
        """Count the next timestamp."""
        last_ns, self._last_ns = self._last_ns, ts_ns
        if last_ns is None:
            return
        step_ns = ts_ns - last_ns
        returns = (
            self._usual_ns is not None and step_ns < -AHEAD_NS and ts_ns < self._usual_ns + AHEAD_NS
        )
        wakes = last_ns < OLDEST_NS <= ts_ns and step_ns > BACK_NS
        if returns or wakes or step_ns < -BACK_NS:
            self.count += 1
            self._usual_ns = None
        elif step_ns > AHEAD_NS and self._usual_ns is None:
            self._usual_ns = last_ns

    def jumps(self, end_ns: int) -> int:
        """Return the number of jumps in a recording whose last confirmed timestamp is `end_ns`."""
        last_ns = end_ns if self._last_ns is None else self._last_ns
        return self.count + (last_ns > end_ns + BACK_NS)
