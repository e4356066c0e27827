"""Stores the offset and error of a source's clock over a short stretch of its time.

A model of a clock is a set of lines, but an event needs two numbers quickly. So time is divided
into cells of `CELL_NS`. In a cell, offset and error are linear between their values at its ends.

The upper bound of the offset is convex over time and the lower one is concave. So the straight
pieces are outside both, and the offset stays between them. The grid is fixed, so a timestamp always
gets the same numbers, whichever cells were computed before.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

CELL_BITS: Final = 30
CELL_NS: Final = 1 << CELL_BITS
"""Width of a cell, 1.07 s: long compared with events, but short for the wander of a clock."""

WIDEST_NS: Final = (1 << 63) - 1
"""Largest error that a cell can have, since it must fit the header `err`."""

UNSYNCED: Final = "unsynced"
"""There are too few rounds, or the error exceeds `max_error`, so the clock is unknown."""
SYNCED: Final = "synced"
STALE: Final = "stale"
"""There was no good round for `STALE_AFTER_NS`. The error grows as fast as a clock may drift."""
SUSPECT: Final = "suspect"
"""The newest rounds contradict the older ones, and no majority has decided yet."""
BROKEN: Final = "broken"
"""Events contradicted the clock: by its offset, they would have happened after their arrival."""


STATES: Final = (SYNCED, STALE, UNSYNCED, SUSPECT, BROKEN)
"""The states, from the best to the worst."""


@dataclass(slots=True, eq=False)
class ClockCell:
    """A stretch of a source's time, `start_ns` <= t < `end_ns`, with its offset and error.

    At `start_ns` + x, the offset is `offset_ns` + (`offset_step_ns` * x >> CELL_BITS). The error is
    computed in the same way.
    """

    start_ns: int
    state: str
    offset_ns: int = 0
    error_ns: int = 0
    offset_step_ns: int = 0
    error_step_ns: int = 0
    end_ns: int = field(init=False)

    def __post_init__(self) -> None:
        self.end_ns = self.start_ns + CELL_NS

    def offset_at(self, ts_ns: int) -> int:
        return self.offset_ns + (self.offset_step_ns * (ts_ns - self.start_ns) >> CELL_BITS)

    def error_at(self, ts_ns: int) -> int:
        return self.error_ns + (self.error_step_ns * (ts_ns - self.start_ns) >> CELL_BITS)


def cell_start(ts_ns: int) -> int:
    return ts_ns >> CELL_BITS << CELL_BITS
