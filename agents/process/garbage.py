"""When a stage's process looks for garbage that refers to itself.

What a batch makes goes by reference count. Only what refers to itself in a circle needs Python's
collector, which counts objects and not what they hold: a circle with a megabyte in it counts as one
without. So it comes by number, which is seldom, and by time, of two kinds:

* *Young*, every `COLLECT_S`: what was made since the last one. A circle that was left by then is
  gone. One that was still in use is old from then on, and this kind does not see it again.
* *Full*, every `FULL_S`, and when the last partition of a process goes, as in every rebalance: all
  circles that were left, a partition's state among them (a pattern's is in circles). Never twice
  within `FULL_APART_S`: what goes meanwhile waits that long.

Cost: the young kind walks what was made, some ten milliseconds at most. The full kind walks all
that lives, held events and tables too, and everything in the process waits meanwhile: 0.6 us for
each held event, 65 ms for 100,000 (docs/decisions/0016). By time it takes `FULL_SHARE` at most:
where one took longer, the next comes later. When the last partition goes there is little to walk.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import Final

GC_THRESHOLDS: Final = (200_000, 20, 100)
"""The first is above what the batches of a busy partition keep alive at a time, some tens of
thousands of objects. A collector that walks them finds nothing: a third of the worker's time by
its defaults, 7 % at 50,000."""

COLLECT_S: Final = 60.0
"""Between two looks at what is young."""

FULL_S: Final = 600.0
"""Between two full ones, by time."""

FULL_SHARE: Final = 0.001
"""The part of all time that full ones by time may take."""

FULL_APART_S: Final = 60.0
"""Between two full ones, however often partitions go."""

YOUNG: Final = 1
"""The generations up to this one are young: what was made since the last look."""


def begin() -> None:
    """What is here, the modules above all, stays; and the collector comes seldom."""
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)


class Collecting:
    """`clock` is monotonic, in seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._looked_s = self._full_s = clock()
        self._every_s = FULL_S
        self._is_let_go = False  # since the last full one

    def look(self) -> None:
        """Collect what is due."""
        now_s = self._clock()
        since_full_s = now_s - self._full_s
        if since_full_s >= (FULL_APART_S if self._is_let_go else self._every_s):
            gc.collect()
            self._looked_s = self._full_s = self._clock()
            self._every_s = max(FULL_S, (self._full_s - now_s) / FULL_SHARE)
            self._is_let_go = False
        elif now_s - self._looked_s >= COLLECT_S:
            self._looked_s = now_s
            gc.collect(YOUNG)

    def let_go(self) -> None:
        """Partitions were released: a full collection is due, now or when `FULL_APART_S` are
        over."""
        self._is_let_go = True
        self.look()
