"""Clocks of sources that cannot sync: bounds from the arrivals of their events alone.

No event arrives before it happens, so each bounds the offset from above: D <= arrival -
ts, the *reading* (reorder_drift_merge.md 2.7). From below nothing bounds it but an
assumption: that the quickest events take at most `passive_floor` (F). So D lies in
[U - F, U], U being the lower edge of the readings. F cannot be seen from one side: if
all events of a source take longer, its times are late by what is over, and no figure shows
it. Arrival is the broker's clock, which thus becomes the reference.

The edge: of every `BIN_NS` of the source's time the third smallest reading (one reading may
be anything; while there are fewer, the smallest); the smallest of all bins, each carried on by
`max_skew`. A bound is never forgotten, so after an outage, when all that comes has waited
long, the edge is where it was, and no backlog is taken for a clock set back.

Which offset in [U - F, U]: a clock is not corrected without evidence that it is wrong. 0, if
it lies inside; else the middle, and in between a steady passage, so that a source near
the edge does not leap to and fro by F / 2. The error reaches to the farther end.

Cost: O(1) an event and a cell; six numbers a source.
"""

from __future__ import annotations

from typing import Any, Final

from topology.clock.cell import CELL_NS, UNSYNCED, Cell, cell_start

BIN_NS: Final = 10_000_000_000
SMALLEST: Final = 3
"""How many of the smallest readings of a bin are kept; the largest of them counts."""

EARLIEST: Final = -(1 << 63)
ALL: Final = 1 << 64
"""Larger than any reading."""

BILLION: Final = 1_000_000_000


class OneWay:
    """`note` every event whose reading is below `notable_ns` or its stamp at or after
    `bin_end_ns`: no other changes anything."""

    __slots__ = (
        "_bin_start_ns",
        "_carried",
        "_floor_ns",
        "_max_skew_ppb",
        "_smallest",
        "bin_end_ns",
        "notable_ns",
    )

    def __init__(self, floor_ns: int, max_skew_ppb: int) -> None:
        self._floor_ns = floor_ns
        self._max_skew_ppb = max_skew_ppb
        self._carried: tuple[int, int] | None = None
        """(time, reading) of the bin, before the open one, whose bound is the smallest."""
        self._smallest: list[int] = []
        self._bin_start_ns = 0
        self.notable_ns = ALL
        self.bin_end_ns = 0

    @property
    def has_begun(self) -> bool:
        """There is a reading, and so an edge."""
        return bool(self._smallest)

    def begin_anew(self) -> None:
        self._carried = None
        self._smallest = []
        self.notable_ns = ALL
        self.bin_end_ns = self._bin_start_ns = 0

    def note(self, ts_ns: int, reading_ns: int) -> bool:
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
        if len(smallest) == SMALLEST:
            self.notable_ns = smallest[-1]
        return True

    def _begin_bin(self, ts_ns: int) -> None:
        if self._smallest:
            middle_ns = self._bin_start_ns + BIN_NS // 2
            if self._reading() <= self._carried_to(middle_ns):
                self._carried = (middle_ns, self._reading())
        self._smallest = []
        self.notable_ns = ALL
        self._bin_start_ns = max(EARLIEST, ts_ns // BIN_NS * BIN_NS)
        self.bin_end_ns = self._bin_start_ns + BIN_NS

    def _carried_to(self, ts_ns: int) -> int:
        if self._carried is None:
            return ALL
        at_ns, edge_ns = self._carried
        return edge_ns + abs(ts_ns - at_ns) * self._max_skew_ppb // BILLION + 1

    def _reading(self) -> int:
        """Of the bin that is open."""
        return self._smallest[-1] if len(self._smallest) == SMALLEST else self._smallest[0]

    def edge(self, ts_ns: int) -> tuple[int, int]:
        """U at this time, and how far off it may be through drift, up or down."""
        # The open bin is read as it stands: carried, U would climb and fall with each bin.
        unsure_ns = abs(ts_ns - self._bin_start_ns) * self._max_skew_ppb // BILLION + 1
        edge_ns = self._reading()
        carried_ns = self._carried_to(ts_ns)
        if self._carried is not None and carried_ns < edge_ns:
            edge_ns, unsure_ns = carried_ns, 2 * (carried_ns - self._carried[1])
        return edge_ns, unsure_ns

    def cell(self, ts_ns: int) -> Cell:
        """Offset and error, constant over the cell; at least one event has been noted."""
        start_ns = cell_start(ts_ns)
        upper_ns, unsure_ns = self.edge(start_ns)
        unsure_ns += CELL_NS * self._max_skew_ppb // BILLION + 1
        lower_ns = upper_ns - self._floor_ns
        offset_ns = believed(lower_ns, upper_ns)
        error_ns = max(upper_ns - offset_ns, offset_ns - lower_ns) + unsure_ns
        return Cell(start_ns, UNSYNCED, offset_ns, error_ns)

    def snapshot(self) -> list[Any]:
        carried = None if self._carried is None else list(self._carried)
        return [self._bin_start_ns, self._smallest[:], carried]

    def restore(self, state: list[Any]) -> None:
        self._bin_start_ns, self._smallest, carried = state
        self.bin_end_ns = self._bin_start_ns + BIN_NS if self._smallest else 0
        self._carried = None if carried is None else (carried[0], carried[1])
        full = len(self._smallest) == SMALLEST
        self.notable_ns = self._smallest[-1] if full else ALL


def believed(lower_ns: int, upper_ns: int) -> int:
    """The offset taken where it may be anything in [lower, upper]; steady in both."""
    half_ns = (upper_ns - lower_ns) // 2
    if lower_ns > 0:
        return lower_ns + min(half_ns, lower_ns)
    if upper_ns < 0:
        return upper_ns - min(half_ns, -upper_ns)
    return 0
