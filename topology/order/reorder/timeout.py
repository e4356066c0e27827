"""Decides how long REORDER waits for a gap: one interface, and the rules `miss` and `fixed`.

* `miss` (the default): the smallest wait that at most `miss_target` of all gaps outlive. It is
  computed from measured fill times, including those of gaps that filled after they were given up.
* `fixed`: always `max_wait`.

A rule is notified of events (`note_opened`, `note_filled`) and asked once per gap (`wait_ns`, or
both in one: `open`). The deadline of the gap is fixed at that moment. All times are integer
nanoseconds. Each call is O(1).

A source is cold until 32 of its gaps have filled or 100 have opened. For a cold source, `miss` uses
the pooled measurements of the stream's sources in this partition. While the pool is cold too, the
wait is `max_wait`. Until 1 / `miss_target` gaps have been measured, the wait exceeds the measured
times by a margin, which shrinks with each gap.
"""

from __future__ import annotations

from typing import Final

from topology.state.histogram import HALVE_EVERY, HISTOGRAM, PPM, Histogram, bucket_of
from topology.state.saved import FLAG, INT, Saved, Shape

WARM_FILLED: Final = 32
WARM_OPENED: Final = 100
MOST_HOLES: Final = HALVE_EVERY // 2
"""The maximum number of gaps that a rule can require, because old counts are halved."""


class Timeout(Saved):
    """The rule `fixed`, which is also the interface of all rules."""

    __slots__ = ("max_wait_ns",)

    def __init__(self, max_wait_ns: int) -> None:
        self.max_wait_ns = max_wait_ns

    def note_opened(self) -> None:
        """Record that a gap was opened. Call it after `wait_ns`."""

    def open(self) -> int:
        """Return the wait for a new gap in nanoseconds, and record the gap."""
        wait_ns = self.wait_ns()
        self.note_opened()
        return wait_ns

    def note_filled(self, fill_ns: int) -> None:
        """Record that a missing event arrived, `fill_ns` after its gap became known."""

    def wait_ns(self) -> int:
        return self.max_wait_ns

    def measure(self) -> Saved | None:
        """Return the measurements that are saved as the rule's state, or None if there are none."""
        return None


FILL_TIMES: Final = Shape(
    "reorder.fill_times", 1, warm=FLAG, _filled=INT, _opened=INT, histogram=HISTOGRAM
)


class FillTimes(Saved):
    """The measured fill times of gaps, and whether there are enough of them."""

    SHAPE = FILL_TIMES
    __slots__ = (*FILL_TIMES.fields, "_enough")

    def __init__(self, miss_ppm: int) -> None:
        self.histogram = Histogram(miss_ppm)
        self._enough = min(PPM // max(miss_ppm, 1), MOST_HOLES)
        self.warm = False
        self._filled = 0
        self._opened = 0

    def note_opened(self) -> None:
        self.histogram.trial()
        if not self.warm:
            self._opened += 1
            self.warm = self._opened >= WARM_OPENED

    def record_fill(self, bucket: int) -> None:
        """Record a fill time, given by its bucket in the histogram."""
        self.histogram.add_to_bucket(bucket)
        if not self.warm:
            self._filled += 1
            self.warm = self._filled >= WARM_FILLED

    def wait_ns(self) -> int:
        """Return the histogram's edge plus a quarter, and more while few gaps have been measured.

        After few gaps the edge is the longest measured fill time, and the next may be longer. If
        the tail falls by the same factor in equal times, its reach grows with the logarithm of the
        number of gaps. So the wait is multiplied by log(number of gaps required) / log(number of
        gaps measured).
        """
        histogram, enough = self.histogram, self._enough
        wait_ns = histogram.edge_ns() * 5 // 4
        gaps = histogram.trials or 1
        if gaps < enough:
            wait_ns = wait_ns * enough.bit_length() // gaps.bit_length()
        return wait_ns


class Miss(Timeout):
    """The rule `miss`, with a `pool` that all sources of the stream in the partition share."""

    __slots__ = ("_own", "_pool")

    def __init__(self, max_wait_ns: int, pool: FillTimes) -> None:
        super().__init__(max_wait_ns)
        self._own = FillTimes(pool.histogram.miss_ppm)
        self._pool = pool

    def note_opened(self) -> None:
        self._own.note_opened()
        self._pool.note_opened()

    def note_filled(self, fill_ns: int) -> None:
        bucket = bucket_of(fill_ns)
        self._own.record_fill(bucket)
        self._pool.record_fill(bucket)

    def wait_ns(self) -> int:
        times = self._own if self._own.warm else self._pool
        if not times.warm:
            return self.max_wait_ns
        wait_ns = times.wait_ns()
        return wait_ns if wait_ns < self.max_wait_ns else self.max_wait_ns

    def measure(self) -> FillTimes:
        return self._own
