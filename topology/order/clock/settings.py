"""Defines the settings of CLOCK: the section `clock` of a stream."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Final, Literal

from topology.base.one_clock import Play
from topology.spelling.problem import Fault
from topology.spelling.section import Section, Unspelled
from topology.spelling.values import MAX_INT, Count, DurationNs, PositiveNs, RatePpb, one_of, whole

Sync = Literal["none", "udp"]
Unsynced = Literal["trust", "estimate", "reject"]

SINCE_EVER: Final = -(1 << 63)
"""The earliest timestamp. It fits 64 bits, as all saved numbers must."""
FOR_EVER: Final = 1 << 64
"""A value larger than every timestamp and every difference of two timestamps."""

STALE_AFTER_NS: Final = 180_000_000_000
"""The time without a good round after which the error of a clock grows."""
PASSIVE_FLOOR_NS: Final = 40_000_000
"""The longest time that the quickest events of a source usually take to arrive (`estimate`)."""
MAX_SERVERS: Final = 8
"""The most time servers whose rounds `topology.order.clock.measured` keeps for a source."""
PPB_PER_PPM: Final = 1_000
MAX_SKEW_PPB: Final = 10_000_000
"""The largest drift that can be configured, one per cent. No usable clock drifts faster."""


class ClockConfig(Section):
    """The settings for measuring a source's clock, and for how far it is trusted."""

    sync: Annotated[Sync, one_of(Sync)] = "udp"
    """Whether time sync counts. Under `none` samples have no effect, and the clock topic is not
    read."""
    unsynced: Annotated[Unsynced, one_of(Unsynced)] = "estimate"
    """The time of events of a source that has not synced. `trust` takes the timestamp, `estimate`
    corrects it by arrivals, and `reject` makes a dead letter."""
    max_ahead_ns: DurationNs = 3_600_000_000_000
    """A trusted timestamp further ahead of its arrival is a dead letter. Raise it if clocks that
    are ahead by more are to be believed."""
    max_behind_ns: Annotated[PositiveNs, Unspelled()] = MAX_INT
    """An event with a time further before its arrival is a dead letter. So times fit 64 bits."""
    servers: Annotated[int, whole(1, MAX_SERVERS)] = 1
    """The number of time servers that a source asks. Most of them have to agree. Set it to 3 or
    more if one server may be wrong."""
    max_error_ns: PositiveNs = 20_000_000
    """A source with a larger time error counts as unsynced. Raise it if the network to the time
    server is slow, lower it if order has to be exact."""
    sync_window_ns: PositiveNs = 300_000_000_000
    """How long a round of time sync is used. Raise it if sources sync more rarely."""
    max_skew_ppb: RatePpb = 250_000
    """How fast a clock may drift. Raise it if clocks are worse: too small a rate breaks the stated
    time error."""
    wander_ppb_per_min: Annotated[int, whole(0), Unspelled()] = 100
    """How fast the rate of a clock may change, in ppb per minute."""
    max_set_back_ns: DurationNs | None = None
    """How far the time of an event may be below the newest of its source, in sequence. Set it for
    gateways that number what sensors stamped. Merge waits so much longer, also beyond
    `merge.max_wait`. By default it does not wait for these events (docs/concepts/clocks.md)."""
    granularity_ns: DurationNs | None = None
    """The resolution of the clocks of source and server. By default it is the unit of `ts`. Raise
    it if clocks tick more coarsely than they write."""
    activation_ns: Annotated[DurationNs, Unspelled()] = 1_000_000_000
    """The time from a sample's arrival until it applies."""
    broker_slack_ns: DurationNs = 1_000_000_000
    """How far the broker's clock may be off before an event contradicts the clock of its source.
    Raise it if brokers have no NTP."""
    mend_above_ns: DurationNs = 500_000_000
    """Under `estimate`, a clock that is behind by less is not corrected. Lower it if packets are
    quick. Raise it if all packets take long."""
    jump_min_ns: Annotated[PositiveNs, Unspelled()] = 1_000_000_000
    """The smallest change of timestamps or readings that counts as a jump of the clock."""

    has_arrivals: Annotated[bool, Unspelled()] = True
    """False in a recording without arrival times, in which timestamps stand for them."""
    max_sources: Annotated[Count, Unspelled()] = 200_000
    """The value of `reorder.max_sources` of the stream."""
    forget_after_ns: Annotated[PositiveNs, Unspelled()] = MAX_INT
    """The value of `reorder.forget_after` of the stream."""

    @property
    def play(self) -> Play:
        return Play(-(-self.max_skew_ppb // PPB_PER_PPM), self.granularity_ns or 0)

    def faults(self) -> Iterator[Fault]:
        if self.max_skew_ppb > MAX_SKEW_PPB:
            message = f"{self.max_skew_ppb} ppb is more than a clock can drift"
            yield Fault(("max_skew",), message, "write 10000ppm or less")
