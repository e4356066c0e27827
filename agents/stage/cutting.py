"""How many records may wait for a checkpoint, so that its cut does not keep the loop for long.

A cut takes what has changed from all operators at one instant. Its cost is that of the changes:
next to nothing for many records of few sources, 20 us for each source that has changed. With
the bound of `max_batch` alone, 100,000 sources that speak at once would keep the loop, and with
it everybody else, for half a second at a time and more. So a cut is timed: after one that took
longer than `CUT_S` so many records wait for the next as fit into that time, and where cuts
are quick it is twice as many each time, up to `max_batch`. What comes out is the same for
every cut.

The garbage collector stands still meanwhile. A cut makes lists by the hundred thousand, encodes
them and drops them: none of them is in a cycle, and a collector that walks them again and again
takes a fifth of the time and more.

Proved by: tests/agents/stage/test_cutting.py
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

CUT_S: Final = 0.1
QUICK_S: Final = CUT_S / 4
FEWEST: Final = 1_000
"""Records that may wait at least; a transaction has a cost of its own."""


class CutSize:
    """`records` may wait for the next checkpoint."""

    def __init__(self, max_batch: int) -> None:
        self._max_batch = max_batch
        self.records = max_batch

    @contextmanager
    def timed(self, records: int) -> Iterator[None]:
        """Around a cut after so many records."""
        began_s = time.monotonic()
        with uncollected():
            yield
        self.took(time.monotonic() - began_s, records)

    def took(self, seconds: float, records: int) -> None:
        if seconds > CUT_S and records:
            fitting = int(records * CUT_S / seconds)
            self.records = min(self._max_batch, max(FEWEST, fitting))
        elif seconds < QUICK_S:
            self.records = min(self._max_batch, 2 * self.records)


@contextmanager
def uncollected() -> Iterator[None]:
    """Without the garbage collector, where that is at work."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
