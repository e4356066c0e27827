"""When a stage's process looks for garbage that refers to itself.

What a batch makes goes by reference count. Only what refers to itself in a circle needs Python's
collector, which counts objects and not what they hold: a circle with a megabyte in it counts as one
without. So it comes by number, which is seldom, and by time: a circle that was made and left within
`COLLECT_S` is gone `COLLECT_S` later, however few they are.

Cost: a walk over what was made since the last one, some ten milliseconds at most. What is older,
such as held events and tables, is not walked by time.

Proved by: tests/agents/test_garbage.py
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

YOUNG: Final = 1
"""The generations up to this one are looked through by time: what was made since the last look."""


def begin() -> None:
    """What is here, the modules above all, stays; and the collector comes seldom."""
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)


class Collecting:
    """`clock` is monotonic, in seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._looked_s = clock()

    def look(self) -> None:
        """Collect what is young, if that was not done for `COLLECT_S`."""
        now_s = self._clock()
        if now_s - self._looked_s >= COLLECT_S:
            self._looked_s = now_s
            gc.collect(YOUNG)
