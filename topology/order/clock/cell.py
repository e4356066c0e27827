"""Represents the offset and error of a source's clock over about one second of its time.

A clock model is a set of possible lines, but each event needs one offset and one error, quickly. So
time is divided into cells of `CELL_NS`. Within a cell, offset and error are interpolated linearly
between its two ends.

The upper bound of the offset is a convex function of time, and the lower bound is concave. So the
interpolated bounds are never tighter than the exact ones. The grid of cells is fixed. So the offset
and error of a timestamp do not depend on which cells were computed before.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from topology.base.native import mypyc_attr

CELL_BITS: Final = 30
CELL_NS: Final = 1 << CELL_BITS
"""The width of a cell, 1.07 s. Many events share a cell, but a clock hardly wanders within it."""

WIDEST_NS: Final = (1 << 63) - 1
"""The largest possible error of a cell, which must fit the header `err`."""

UNSYNCED: Final = "unsynced"
"""There are too few rounds or servers with an answer, or the error exceeds `max_error`."""
SYNCED: Final = "synced"
STALE: Final = "stale"
"""There has been no good round for `STALE_AFTER_NS`, so the error grows at the maximum drift."""
SUSPECT: Final = "suspect"
"""The newest rounds contradict the older ones, and no majority has decided yet."""
BROKEN: Final = "broken"
"""Events have contradicted a declared or measured offset, and the source has not synced since then.
"""


STATES: Final = (SYNCED, STALE, UNSYNCED, SUSPECT, BROKEN)
"""All states, from the best to the worst."""


@mypyc_attr(acyclic=True)
@dataclass(slots=True, eq=False)
class ClockCell:
    """The offset and error of a source's clock for timestamps `start_ns` <= t < `end_ns`.

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
