"""Schedules the garbage collection of a stage's process.

The objects of a batch are freed by reference count. Only reference cycles need Python's collector,
which counts objects and not their sizes: a cycle with a megabyte counts like a small one. So
collections run by the number of objects, which is seldom, and by time, in two kinds:

* *Young*, every `COLLECT_S`, for objects created since the last one. It frees the cycles that are
  unreachable by then. A cycle that is still in use counts as old afterwards, and this kind does not
  examine it again.
* *Full*, every `FULL_S`, and when the last partition of a process is released, as in every
  rebalance. It frees all unreachable cycles, such as the state of a partition with patterns. It
  never runs twice within `FULL_APART_S`: cycles released in between wait that long.

Cost: the young kind walks the new objects, which takes some ten milliseconds at most. The full kind
walks all live objects, including buffered events and tables, while everything else in the process
waits. It takes 0.6 us for each buffered event, 65 ms for 100,000 (docs/decisions/0016). Scheduled
full collections take at most the share `FULL_SHARE` of the time: after a longer collection the next
one comes later. When the last partition is released, there are few objects to walk.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import Final

GC_THRESHOLDS: Final = (200_000, 20, 100)
"""Thresholds of Python's collector.

The first is above the number of live objects in the batches of a busy partition, some tens of
thousands. A collection that walks them frees nothing. Such collections take a third of the worker's
time with the default thresholds, 7 % at 50,000.
"""

COLLECT_S: Final = 60.0
"""Interval between two collections of young objects."""

FULL_S: Final = 600.0
"""Time between two scheduled full collections."""

FULL_SHARE: Final = 0.001
"""Maximum share of all time for scheduled full collections."""

FULL_APART_S: Final = 60.0
"""Minimum time between two full collections, however often partitions are released."""

YOUNG: Final = 1
"""The oldest young generation; collecting it covers the objects since the last collection."""


def begin() -> None:
    """Exempt all current objects, mainly modules, and make the collector run seldom."""
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)


class Collecting:
    """The schedule of collections; `clock` is monotonic, in seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._looked_s = self._full_s = clock()
        self._every_s = FULL_S
        self._has_released = False  # Each full collection resets this.

    def collect_if_due(self) -> None:
        """Run the collection that is due, if any."""
        now_s = self._clock()
        since_full_s = now_s - self._full_s
        if since_full_s >= (FULL_APART_S if self._has_released else self._every_s):
            gc.collect()
            self._looked_s = self._full_s = self._clock()
            self._every_s = max(FULL_S, (self._full_s - now_s) / FULL_SHARE)
            self._has_released = False
        elif now_s - self._looked_s >= COLLECT_S:
            self._looked_s = now_s
            gc.collect(YOUNG)

    def let_go(self) -> None:
        """Request a full collection, because partitions were released.

        It runs now, or when `FULL_APART_S` have passed since the last one.
        """
        self._has_released = True
        self.collect_if_due()
