"""CLOCK as published: uses the quickest round of each burst, with an error that does not grow.

The latest burst's round with the smallest round-trip time T gives the offset d = ((t2 - t1) + (t3 -
t4)) / 2. The error is T / 2 (3.12-3.14) plus the granularity. There is no rate, so the bound
ignores how the clock drifts after the burst. Only one server is used. This module is for
comparison. It has the interface of `topology.order.clock.measured`.

A burst ends when no round has arrived for `BURST_GAP_NS` of the server's time; the thesis gives no
figure. Rounds of earlier bursts are counted as late, and implausible ones as rejected. The state is
`unsynced` before the first round, and while the error exceeds `max_error`.

S. Rajendran, thesis, 3.2.2. Cost: O(1), six numbers.
"""

from __future__ import annotations

from typing import Final

from topology.base.sample import Sample
from topology.order.clock.cell import SYNCED, UNSYNCED, ClockCell, cell_start
from topology.order.clock.models import Rounds
from topology.order.clock.operator import Clock
from topology.order.clock.settings import ClockConfig
from topology.state.saved import INT, Saved, Shape, optional

BURST_GAP_NS: Final = 5_000_000_000


THESIS: Final = Shape(
    "published.clock",
    1,
    _round_trip_ns=optional(INT),
    _offset_ns=INT,
    _begun_ns=INT,
    _newest_ns=INT,
    rejected=INT,
    late=INT,
)


class ThesisClock(Saved):
    """The model of one source's clock, from the quickest round of the latest burst.

    `segment`, `jumps` and `falsetickers` stay 0.
    """

    SHAPE = THESIS

    def __init__(self, config: ClockConfig) -> None:
        self._granularity_ns = config.granularity_ns or 0
        self._max_error_ns = config.max_error_ns
        self.begin_segment()
        self.segment = 0
        self.rejected = 0
        self.late = 0
        self.falsetickers = 0
        self.jumps = 0

    def begin_segment(self) -> None:
        """Forget the rounds, because the events show that the clock has jumped."""
        self._round_trip_ns: int | None = None
        self._offset_ns = 0
        self._begun_ns = 0
        self._newest_ns = 0

    def add(self, sample: Sample) -> None:
        """Add a round, in the order of arrival."""
        if not sample.is_plausible(self._granularity_ns):
            self.rejected += 1
            return
        round_trip_ns = sample.round_trip_ns
        least_ns = self._round_trip_ns
        if least_ns is None or sample.t3_ns > self._newest_ns + BURST_GAP_NS:
            self._begun_ns = self._newest_ns = sample.t3_ns
            least_ns = None
        elif sample.t3_ns < self._begun_ns - BURST_GAP_NS:
            self.late += 1
            return
        self._begun_ns = min(self._begun_ns, sample.t3_ns)
        self._newest_ns = max(self._newest_ns, sample.t3_ns)
        if least_ns is None or round_trip_ns < least_ns:
            self._round_trip_ns = round_trip_ns
            self._offset_ns = ((sample.t2_ns - sample.t1_ns) + (sample.t3_ns - sample.t4_ns)) // 2

    def cell(self, ts_ns: int) -> ClockCell:
        """Return the cell that contains `ts_ns`; all cells have the same offset and error."""
        start_ns = cell_start(ts_ns)
        if self._round_trip_ns is None:
            return ClockCell(start_ns, UNSYNCED)
        error_ns = max(0, -(-self._round_trip_ns // 2)) + self._granularity_ns
        state = SYNCED if error_ns <= self._max_error_ns else UNSYNCED
        return ClockCell(start_ns, state, self._offset_ns, error_ns)

    def skew_ppb(self) -> int | None:
        return None


class RoundTripClock(Clock):
    """CLOCK with the model of the thesis."""

    def _rounds_of(self, config: ClockConfig) -> Rounds:
        return Rounds(config, "thesis", ThesisClock)
