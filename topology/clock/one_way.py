"""Clocks of sources that cannot sync: bounds from the arrivals of their events alone.

No event arrives before it happens, so each bounds the offset from above: D <= arrival -
ts, the *reading*. From below nothing bounds it but an
assumption: that the quickest events take at most `PASSIVE_FLOOR_NS` (F). So D lies in
[U - F, U], U being the lower edge of the readings. F cannot be seen from one side: if
all events of a source take longer, its times are late by what is over, and no figure shows
it. Arrival is the broker's clock, which thus becomes the reference.

The edge: of every `BIN_NS` of the source's time the third smallest reading (one reading may
be anything; while there are fewer, the smallest); the smallest of all bins, each carried on by
`max_skew`. A bound is never forgotten, so after an outage, when all that comes has waited
long, the edge is where it was, and no backlog is taken for a clock set back. How far the
three smallest lie apart says how well the quickest is known: the lower bound gives way by
twice as much.

Which offset: a clock is not corrected without evidence that it is wrong, and what is mended
must be wider than what is not known. A late event may have a clock that is behind, or have
taken long; an early one can only have a clock that is ahead. So

* ahead (U < 0): by up to F nothing is done; beyond, the middle of [U - F, U], after a steady
  passage, so that a source near the edge does not leap to and fro;
* behind: nothing is done unless the edge is *settled* and U - F above `mend_above`; then the
  middle, until U falls below half of `mend_above`.

The edge is settled when `SMALLEST` readings within F of one another, and none that is lower by
more, lie `SETTLED_AFTER_NS` of arrivals apart. So the readings of a backlog, which fall as it
is drained, and those of old data that is played quicker or slower than it happened, move
no clock. Old data played at its own pace cannot be distinguished from a clock that is behind.

The error reaches to the farther end. Where a clock is left alone, that is U: it may be right, or
as far behind as that. Where it is moved, the quickest events may have taken `mend_above`
rather than F, for so much is not held against a clock that is left alone. If it is ahead, or one
reading of its first bin is below -F, and nothing has settled, `UNSETTLED_NS` is added, for the
first events of a source may have waited.

What arrives later than that, and has not settled, is taken for old: its source is believed, give
or take `mend_above`. (Every window of a backlog of an hour would otherwise have to reckon
with the events of two.) So until an edge has settled the bound holds for right clocks and for
those that are behind by at most `UNSETTLED_NS`; afterwards for all whose quickest events take
at most `mend_above`.

Cost: O(1) an event and a cell; twelve numbers a source.
"""

from __future__ import annotations

from typing import Final

from topology.clock.cell import CELL_NS, UNSYNCED, ClockCell, cell_start
from topology.model.kept import BIG, FLAG, INT, Kept, Shape, list_of, optional, tuple_of

BIN_NS: Final = 10_000_000_000
SMALLEST: Final = 3
"""How many of the smallest readings of a bin are kept; the largest of them counts."""

SETTLED_AFTER_NS: Final = 2_000_000_000
UNSETTLED_NS: Final = 10_000_000_000
GIVEN_UP_NS: Final = 30_000_000_000
GIVEN_UP_AFTER: Final = 16
"""After both, in arrivals and in readings, a level that others did not come near is given up."""

EARLIEST: Final = -(1 << 63)
ALL: Final = 1 << 64
"""Larger than any reading."""

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


class Level(Kept):
    """The readings that agree, over long enough, on where the edge is."""

    SHAPE = LEVEL
    __slots__ = (*LEVEL.fields, "_width_ns")

    def __init__(self, width_ns: int) -> None:
        self._width_ns = width_ns
        self._reading_ns = self._since_ns = self._near = self._seen = 0
        self.settled_ns: int | None = None
        """The reading they agreed on last."""

    def bears(self, edge_ns: int) -> bool:
        """Whether they have agreed on this edge, or on one that is higher."""
        return self.settled_ns is not None and edge_ns <= self.settled_ns + self._width_ns

    def note(self, arrival_ns: int, reading_ns: int) -> bool:
        """True if that settles it."""
        above_ns = reading_ns - self._reading_ns
        lasts_ns = arrival_ns - self._since_ns
        stale = lasts_ns > GIVEN_UP_NS and self._seen >= GIVEN_UP_AFTER
        if not self._near or above_ns < -self._width_ns or stale:
            self._reading_ns, self._since_ns = reading_ns, arrival_ns
            self._near = self._seen = 1
            return False
        self._seen += 1
        if above_ns > self._width_ns:
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


class OneWay(Kept):
    """The bounds of one source's clock by its arrivals.

    `note` every event whose reading is below `notable_ns` or its stamp at or after `bin_end_ns`: no
    other changes anything. `mends`: the clock is taken to be behind.
    """

    SHAPE = ONE_WAY
    __slots__ = (
        *ONE_WAY.fields,
        "_floor_ns",
        "_max_skew_ppb",
        "_mend_above_ns",
        "_watches",
        "bin_end_ns",
        "notable_ns",
        "width_ns",
    )

    def __init__(self, floor_ns: int, max_skew_ppb: int, mend_above_ns: int) -> None:
        self._floor_ns = floor_ns
        self._max_skew_ppb = max_skew_ppb
        self._mend_above_ns = mend_above_ns
        self.width_ns = max(floor_ns, mend_above_ns)
        """The width of what is possible of a clock that is wrong."""
        self.begin_anew()

    @property
    def has_begun(self) -> bool:
        """There is a reading, and so an edge."""
        return bool(self._smallest)

    def begin_anew(self) -> None:
        self._carried: tuple[int, int, int] | None = None
        """(time, reading, apart) of the bin, before the open one, whose bound is the smallest."""
        self._smallest: list[int] = []
        self._level: Level | None = None
        """That of a source that is watched."""
        self.mends = False
        self._watches = False
        self.notable_ns = ALL
        self.bin_end_ns = self._bin_start_ns = 0

    def settle(self) -> None:
        """The readings noted so far are known to agree."""
        self._own_level().settle(self._reading())
        self._judge()

    def _own_level(self) -> Level:
        if self._level is None:
            self._level = Level(self._floor_ns)
        return self._level

    def _is_settled(self, edge_ns: int) -> bool:
        return self._level is not None and self._level.bears(edge_ns)

    def note(self, ts_ns: int, reading_ns: int) -> bool:
        """True if the answer may have changed."""
        moved = self._lower(ts_ns, reading_ns)
        if moved:
            self._judge()
        if self._watches and self._own_level().note(ts_ns + reading_ns, reading_ns):
            self._judge()
            return True
        return moved

    def _lower(self, ts_ns: int, reading_ns: int) -> bool:
        """True if the edge may have moved."""
        if ts_ns >= self.bin_end_ns or not self._smallest:
            self._begin_bin(ts_ns)
        elif ts_ns < self._bin_start_ns:
            return False  # of an earlier bin
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
            if self._reading() <= self._carried_to(middle_ns):
                reading_ns = self._reading()
                self._carried = (middle_ns, reading_ns, reading_ns - self._smallest[0])
        self._smallest = []
        self._bin_start_ns = max(EARLIEST, ts_ns // BIN_NS * BIN_NS)
        self.bin_end_ns = self._bin_start_ns + BIN_NS

    def _judge(self) -> None:
        """What the edge says of the clock, and whether it matters that it is not settled."""
        edge_ns, _, _ = self.edge(self._bin_start_ns)
        behind = edge_ns - self._floor_ns > self._mend_above_ns
        settled = self._is_settled(edge_ns)
        if edge_ns <= self._mend_above_ns // 2:
            self.mends = False
        elif behind and settled:
            self.mends = True
        self._watches = not settled and (behind or edge_ns < -self._floor_ns)
        full = len(self._smallest) == SMALLEST and not self._watches
        self.notable_ns = self._smallest[-1] if full else ALL

    def _carried_to(self, ts_ns: int) -> int:
        if self._carried is None:
            return ALL
        at_ns, edge_ns, _ = self._carried
        return edge_ns + abs(ts_ns - at_ns) * self._max_skew_ppb // BILLION + 1

    def _reading(self) -> int:
        """The reading of the bin that is open."""
        smallest = self._smallest
        return smallest[-1] if len(smallest) == SMALLEST else smallest[0]

    def edge(self, ts_ns: int) -> tuple[int, int, int]:
        """U at this time, how far the smallest readings lie apart, and how far off U may be
        through drift, up or down."""
        reading_ns = self._reading()
        carried_ns = self._carried_to(ts_ns)
        if self._carried is not None and carried_ns < reading_ns:
            return carried_ns, self._carried[2], 2 * (carried_ns - self._carried[1])
        # The open bin is read as it is: carried, U would climb and fall with each bin.
        unsure_ns = abs(ts_ns - self._bin_start_ns) * self._max_skew_ppb // BILLION + 1
        return reading_ns, reading_ns - self._smallest[0], unsure_ns

    def cell(self, ts_ns: int) -> tuple[ClockCell, int]:
        """Return the cell of that time, and U at its beginning.

        Offset and error are constant over the cell. At least one event has been noted.
        """
        start_ns = cell_start(ts_ns)
        upper_ns, apart_ns, unsure_ns = self.edge(start_ns)
        unsure_ns += CELL_NS * self._max_skew_ppb // BILLION + 1
        if self.mends:
            offset_ns = upper_ns - self._floor_ns // 2
        else:
            offset_ns = believed(upper_ns, self._floor_ns)
        width_ns = self.width_ns if offset_ns else self._floor_ns
        lower_ns = upper_ns - width_ns - 2 * apart_ns
        ahead = offset_ns < 0 or (self._carried is None and self._smallest[0] < -self._floor_ns)
        if ahead and not self._is_settled(upper_ns):
            lower_ns -= UNSETTLED_NS
        error_ns = max(upper_ns - offset_ns, offset_ns - lower_ns) + unsure_ns
        if not offset_ns and upper_ns > UNSETTLED_NS:
            error_ns = self.width_ns
        return ClockCell(start_ns, UNSYNCED, offset_ns, error_ns), upper_ns

    def fresh(self, field: str) -> Level:
        return Level(self._floor_ns)

    def settled(self) -> None:
        if self._smallest:
            self.bin_end_ns = self._bin_start_ns + BIN_NS
            self._judge()


def believed(upper_ns: int, floor_ns: int) -> int:
    """The offset of a clock that is not taken to be behind: 0 unless it is ahead by more than
    the floor, and then steadily to the middle of [upper - floor, upper]."""
    if upper_ns >= -floor_ns:
        return 0
    return max(upper_ns - floor_ns // 2, 2 * (upper_ns + floor_ns))
