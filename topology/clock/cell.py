"""Offset and error over a short stretch of a source's time, ready for use on events.

What is known about a clock is a set of lines; what an event needs is two numbers, and
quickly. So time is cut in cells of `CELL_NS`, and within one the middle and the
half-width run straight between their values at its ends. The upper bound of the offset is
convex over time and the lower one concave, so the straight pieces lie outside both: the
true offset stays inside. The grid is fixed, so the same stamp gets the same numbers
whoever asked before.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

CELL_BITS: Final = 30
CELL_NS: Final = 1 << CELL_BITS
"""1.07 s: long beside an event, short beside the wander of a clock."""

WIDEST_NS: Final = (1 << 63) - 1
"""No error is stated larger; it has to fit the header `err`."""

UNSYNCED: Final = "unsynced"
"""Too few rounds, or the error has grown beyond `max_error`: the clock is not known."""
SYNCED: Final = "synced"
STALE: Final = "stale"
"""No good round for `STALE_AFTER_NS`; the error grows as fast as a clock may drift."""
SUSPECT: Final = "suspect"
"""The newest rounds contradict what was known, and no majority has decided yet."""
BROKEN: Final = "broken"
"""An event refuted it: its time would have been after its arrival."""


STATES: Final = (SYNCED, STALE, UNSYNCED, SUSPECT, BROKEN)
"""From the least trouble to the most."""


@dataclass(slots=True, eq=False)
class ClockCell:
    """At `start_ns` + x of the source's time, `start_ns` + x < `end_ns`, the offset is
    `offset_ns` + (`offset_step_ns` * x >> CELL_BITS), the error likewise."""

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
