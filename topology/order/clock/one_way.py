"""Estimates the clocks of sources that cannot sync, from the arrivals of their events alone.

No event arrives before it happens, so each bounds the offset D from above: D <= arrival - ts. That
difference is the *reading*. Only an assumption bounds D from below: the quickest events take at
most `PASSIVE_FLOOR_NS` (F). So D is in [U - F, U], where U is the lower edge of the readings.

F cannot be measured in one direction. If all events of a source take longer than F, its corrected
timestamps are too late by the excess, and no figure shows it. Arrival times come from the broker's
clock, so that clock is the reference.

The source's time is divided into bins of `BIN_NS`. The third smallest reading of each bin is its
value, since a single reading can be wrong by any amount. While a bin has fewer readings, its value
is the smallest. The edge U is the smallest value of all bins. Each value is first raised by
`max_skew` times its age. So if all events after a long outage are delayed, U rises only by drift. A
backlog is thus not mistaken for a clock that was set back. The spread of the three smallest
readings shows how well the smallest delay is known. The lower bound is lowered by twice that
spread.

A clock is not corrected without evidence that it is wrong, and a correction must be larger than the
uncertainty. If events seem late, either the clock is behind or they took long. If they seem to
arrive before they happened, the clock must be ahead. So the offset depends on the side:

* Ahead (U < 0): nothing is corrected down to U = -F. Below that, the offset moves continuously to
  the middle of [U - F, U]. So a source near the limit does not jump back and forth.
* Behind: nothing is corrected unless the edge is *settled* and U - F is above `mend_above`. Then
  the offset is the middle of [U - F, U], until U falls to half of `mend_above`.

The edge is settled when `SMALLEST` readings, each within F of the first, span `SETTLED_AFTER_NS` of
arrivals. No reading in between may be lower by more than F. So the readings of a backlog, which
fall while it drains, correct no clock. Neither do those of old data that is replayed faster or
slower than it happened. Old data replayed at its original pace cannot be distinguished from a clock
that is behind.

The error is the distance from the offset to the farther end of the possible range. If events seem
late and the clock is not corrected, that end is usually U: the clock may be right, or behind by U.
For a corrected clock, the quickest events may have taken `mend_above` instead of F, since up to
that delay clocks are not corrected. While nothing has settled, `UNSETTLED_NS` is added if the clock
is ahead or if a reading of its first bin is below -F. The first events of a source may have been
delayed.

An edge above `UNSETTLED_NS` that has not settled is taken for old data. Its source's timestamps are
accepted, with an error of `mend_above`, or of F if that is larger. Otherwise every window of a
backlog of one hour would have to consider the events of two hours. So until an edge has settled,
the error is valid for correct clocks and for those that are behind by at most `UNSETTLED_NS`.
Afterwards it is valid for all clocks whose quickest events take at most `mend_above`.

Cost: O(1) per event and per cell. Memory: about a dozen numbers per source.
"""

from __future__ import annotations

from typing import Final

from topology.base.native import mypyc_attr
from topology.order.clock.cell import CELL_NS, UNSYNCED, ClockCell, cell_start
from topology.order.clock.settings import FOR_EVER, PASSIVE_FLOOR_NS, SINCE_EVER
from topology.state.saved import BIG, FLAG, INT, Saved, Shape, list_of, optional, tuple_of

BIN_NS: Final = 10_000_000_000
SMALLEST: Final = 3
"""The number of smallest readings that a bin keeps. The largest of them is the bin's value."""

SETTLED_AFTER_NS: Final = 2_000_000_000
UNSETTLED_NS: Final = 10_000_000_000
GIVEN_UP_NS: Final = 30_000_000_000
GIVEN_UP_AFTER: Final = 16
"""The search for a level restarts if none has settled after this time and this many readings."""

BILLION: Final = 1_000_000_000


LEVEL: Final = Shape(
    "clock.level",
    1,
    _reading_ns=BIG,
    _since_ns=BIG,
    _near=INT,
    _seen=INT,
    settled_ns=optional(BIG),
)


@mypyc_attr(acyclic=True)
class ReadingLevel(Saved):
    """The level of a source's readings, which settles when enough of them agree for long enough."""

    SHAPE = LEVEL
    __slots__ = LEVEL.fields

    def __init__(self) -> None:
        self._reading_ns = self._since_ns = self._near = self._seen = 0
        self.settled_ns: int | None = None
        """The level on which the readings last agreed, or None."""

    def supports(self, edge_ns: int) -> bool:
        """Return whether the readings have agreed on this edge, or on a higher one."""
        return self.settled_ns is not None and edge_ns <= self.settled_ns + PASSIVE_FLOOR_NS

    def note(self, arrival_ns: int, reading_ns: int) -> bool:
        """Add a reading, and return whether it settles the level."""
        above_ns = reading_ns - self._reading_ns
        lasts_ns = arrival_ns - self._since_ns
        stale = lasts_ns > GIVEN_UP_NS and self._seen >= GIVEN_UP_AFTER
        if not self._near or above_ns < -PASSIVE_FLOOR_NS or stale:
            self._reading_ns, self._since_ns = reading_ns, arrival_ns
            self._near = self._seen = 1
            return False
        self._seen += 1
        if above_ns > PASSIVE_FLOOR_NS:
            return False
        self._near += 1
        if self._near < SMALLEST or lasts_ns < SETTLED_AFTER_NS:
            return False
        self.settle(self._reading_ns)
        return True

    def settle(self, reading_ns: int) -> None:
        self.settled_ns = reading_ns
        self._near = 0


ONE_WAY: Final = Shape(
    "clock.one_way",
    1,
    _bin_start_ns=INT,
    _smallest=list_of(INT),
    _carried=optional(tuple_of(INT, INT, INT)),
    mends=FLAG,
    _level=optional(LEVEL),
)


@mypyc_attr(acyclic=True)
class OneWay(Saved):
    """The bounds of the offset of one source's clock, computed from the arrivals of its events.

    `note` must be called for every event whose reading is below `notable_ns`, or whose timestamp is
    at or after `bin_end_ns`. No other event changes anything. `mends` is True while the clock is
    considered to be behind and is corrected.
    """

    SHAPE = ONE_WAY
    __slots__ = (
        *ONE_WAY.fields,
        "_max_skew_ppb",
        "_mend_above_ns",
        "_watches",
        "bin_end_ns",
        "notable_ns",
        "width_ns",
    )

    def __init__(self, max_skew_ppb: int, mend_above_ns: int) -> None:
        self._max_skew_ppb = max_skew_ppb
        self._mend_above_ns = mend_above_ns
        self.width_ns = max(PASSIVE_FLOOR_NS, mend_above_ns)
        """The width of the range of possible offsets if the clock is wrong."""
        self.reset()

    @property
    def has_begun(self) -> bool:
        """True once there has been a reading. Before that, there is no edge."""
        return bool(self._smallest)

    def reset(self) -> None:
        self._carried: tuple[int, int, int] | None = None
        """(time, reading, spread) of the earlier bin that gives the smallest bound, or None."""
        self._smallest: list[int] = []
        self._level: ReadingLevel | None = None
        """The level of the readings, or None until it is needed."""
        self.mends = False
        self._watches = False
        self.notable_ns = FOR_EVER
        self.bin_end_ns = self._bin_start_ns = 0

    def settle(self) -> None:
        """Settle the level at the current reading, without waiting for more readings to agree."""
        self._ensure_level().settle(self._reading())
        self._review_edge()

    def _ensure_level(self) -> ReadingLevel:
        if self._level is None:
            self._level = ReadingLevel()
        return self._level

    def _is_settled(self, edge_ns: int) -> bool:
        return self._level is not None and self._level.supports(edge_ns)

    def note(self, ts_ns: int, reading_ns: int) -> bool:
        """Add a reading, and return whether the cell may have changed."""
        moved = self._add_to_bin(ts_ns, reading_ns)
        if moved:
            self._review_edge()
        if self._watches and self._ensure_level().note(ts_ns + reading_ns, reading_ns):
            self._review_edge()
            return True
        return moved

    def _add_to_bin(self, ts_ns: int, reading_ns: int) -> bool:
        """Add a reading to its bin, and return whether the edge may have moved."""
        if ts_ns >= self.bin_end_ns or not self._smallest:
            self._begin_bin(ts_ns)
        elif ts_ns < self._bin_start_ns:
            return False  # The reading is of an earlier bin.
        smallest = self._smallest
        if len(smallest) == SMALLEST and reading_ns >= smallest[-1]:
            return False
        smallest.append(reading_ns)
        smallest.sort()
        del smallest[SMALLEST:]
        return True

    def _begin_bin(self, ts_ns: int) -> None:
        if self._smallest:
            middle_ns = self._bin_start_ns + BIN_NS // 2
            if self._reading() <= self._carried_bound_at(middle_ns):
                reading_ns = self._reading()
                self._carried = (middle_ns, reading_ns, reading_ns - self._smallest[0])
        self._smallest = []
        self._bin_start_ns = max(SINCE_EVER, ts_ns // BIN_NS * BIN_NS)
        self.bin_end_ns = self._bin_start_ns + BIN_NS

    def _review_edge(self) -> None:
        """Decide from the edge whether the clock is behind, and whether to watch the level."""
        edge_ns, _, _ = self.edge(self._bin_start_ns)
        behind = edge_ns - PASSIVE_FLOOR_NS > self._mend_above_ns
        settled = self._is_settled(edge_ns)
        if edge_ns <= self._mend_above_ns // 2:
            self.mends = False
        elif behind and settled:
            self.mends = True
        self._watches = not settled and (behind or edge_ns < -PASSIVE_FLOOR_NS)
        full = len(self._smallest) == SMALLEST and not self._watches
        self.notable_ns = self._smallest[-1] if full else FOR_EVER

    def _carried_bound_at(self, ts_ns: int) -> int:
        if self._carried is None:
            return FOR_EVER
        at_ns, edge_ns, _ = self._carried
        return edge_ns + abs(ts_ns - at_ns) * self._max_skew_ppb // BILLION + 1

    def _reading(self) -> int:
        """Return the current bin's third smallest reading, or its smallest of fewer than three."""
        smallest = self._smallest
        return smallest[-1] if len(smallest) == SMALLEST else smallest[0]

    def edge(self, ts_ns: int) -> tuple[int, int, int]:
        """Return the edge U at `ts_ns`, the spread of the smallest readings, and the error of U.

        The error is the largest change of U that drift can cause, in either direction.
        """
        reading_ns = self._reading()
        carried_ns = self._carried_bound_at(ts_ns)
        if self._carried is not None and carried_ns < reading_ns:
            return carried_ns, self._carried[2], 2 * (carried_ns - self._carried[1])
        # Drift is not added to the current bin's reading, or U would rise and fall with each bin.
        unsure_ns = abs(ts_ns - self._bin_start_ns) * self._max_skew_ppb // BILLION + 1
        return reading_ns, reading_ns - self._smallest[0], unsure_ns

    def edge_ns(self, ts_ns: int) -> int:
        """Return the edge U at the start of the cell that contains `ts_ns`."""
        return min(self._reading(), self._carried_bound_at(cell_start(ts_ns)))

    def cell(self, ts_ns: int) -> tuple[ClockCell, int]:
        """Return the cell that contains `ts_ns`, and the edge U at its start.

        Offset and error are constant over the cell. There must have been at least one reading.
        """
        start_ns = cell_start(ts_ns)
        upper_ns, apart_ns, unsure_ns = self.edge(start_ns)
        unsure_ns += CELL_NS * self._max_skew_ppb // BILLION + 1
        if self.mends:
            offset_ns = upper_ns - PASSIVE_FLOOR_NS // 2
        else:
            offset_ns = estimate_offset(upper_ns, PASSIVE_FLOOR_NS)
        width_ns = self.width_ns if offset_ns else PASSIVE_FLOOR_NS
        lower_ns = upper_ns - width_ns - 2 * apart_ns
        ahead = offset_ns < 0 or (self._carried is None and self._smallest[0] < -PASSIVE_FLOOR_NS)
        if ahead and not self._is_settled(upper_ns):
            lower_ns -= UNSETTLED_NS
        error_ns = max(upper_ns - offset_ns, offset_ns - lower_ns) + unsure_ns
        if not offset_ns and upper_ns > UNSETTLED_NS:
            error_ns = self.width_ns
        return ClockCell(start_ns, UNSYNCED, offset_ns, error_ns), upper_ns

    def fresh(self, field: str) -> ReadingLevel:
        return ReadingLevel()

    def derive(self) -> None:
        if self._smallest:
            self.bin_end_ns = self._bin_start_ns + BIN_NS
            self._review_edge()


def estimate_offset(upper_ns: int, floor_ns: int) -> int:
    """Return the offset of a clock that is not considered to be behind.

    It is 0 unless the clock is ahead by more than the floor. Beyond that, it moves continuously to
    the middle of [upper - floor, upper].
    """
    if upper_ns >= -floor_ns:
        return 0
    return max(upper_ns - floor_ns // 2, 2 * (upper_ns + floor_ns))
