"""The clock of records without arrival times, which one wrong timestamp does not move.

The clock is the largest timestamp so far. A step of more than `max_ahead` may be the end of a
silence, or a wrong timestamp. It counts only if the next record, other than a duplicate, is not
back by more than `max_ahead`. So one timestamp of 2036 does not make all later records late. At the
end of the input such a step stays out of account. If the first timestamp is so far ahead of the
next one, a reader of a whole recording begins at the next one (`begin`).

The clock depends on the records and their order alone. So a recording gives the same times whether
it is read in one piece or in several (`spark_analytics.backfill.stretches`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class UnconfirmedStamp(NamedTuple):
    """A timestamp that the next record has to confirm."""

    ts_ns: int
    source: str


class StampClock:
    """The clock.

    Attributes:
        now_ns: The largest timestamp that counts, or None before the first one.
        doubted: The step that waits for the next record, or None.
    """

    __slots__ = ("_max_ahead_ns", "doubted", "now_ns")

    def __init__(self, max_ahead_ns: int, now_ns: int | None = None) -> None:
        self._max_ahead_ns = max_ahead_ns
        self.now_ns = now_ns
        self.doubted: UnconfirmedStamp | None = None

    def begin(self, steps: Iterable[UnconfirmedStamp]) -> None:
        """Begin at the second timestamp of a recording if the first one is far ahead of it.

        `steps` are those of its records. None is taken after the first one that is no duplicate of
        the very first.
        """
        remaining = iter(steps)
        first = next(remaining, None)
        second = next((each for each in remaining if each != first), None)
        if first and second and first.ts_ns > second.ts_ns + self._max_ahead_ns:
            self.now_ns = second.ts_ns

    def take(self, ts_ns: int, source: str) -> int:
        """Process the timestamp of the next record, and return the clock's time after it."""
        now_ns, doubted = self.now_ns, self.doubted
        if now_ns is None:
            now_ns = ts_ns
        if doubted is not None and doubted != (ts_ns, source):
            if ts_ns >= doubted.ts_ns - self._max_ahead_ns:
                now_ns = max(now_ns, doubted.ts_ns)
            self.doubted = None
        if ts_ns > now_ns + self._max_ahead_ns:
            self.doubted = UnconfirmedStamp(ts_ns, source)
        elif ts_ns > now_ns:
            now_ns = ts_ns
        self.now_ns = now_ns
        return now_ns
