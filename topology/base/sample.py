"""Defines the reports about a source's clock: rounds of time sync, and declared offsets.

The *offset* D = server - source is added to a source's time. The change of the offset over time is
the *skew*. A round bounds the offset on both sides, since no packet arrives before it is sent: t3 -
t4 <= D <= t2 - t1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from topology.base.native import mypyc_attr

UNKNOWN_MONO: Final = -(1 << 63)
"""The value of `Sample.mono_ns` if the source does not report it."""


SANE_NS: Final = (1 << 63) - (1 << 40)
"""The largest plausible difference of two clocks, 292 years, which fits 64 bits."""
MAX_RTT_NS: Final = 1_000_000_000
"""Rounds with a longer round trip time are rejected."""
MAX_TURNAROUND_NS: Final = 1_000_000_000
"""Rounds in which the server took longer to answer are rejected."""


@mypyc_attr(acyclic=True)
@dataclass(slots=True)
class Sample:
    """A round of time sync.

    Attributes:
        source: The name of the source.
        t1_ns: When the source sent its request, by its own clock.
        t2_ns: When the server received the request, by the server's clock.
        t3_ns: When the server sent its answer, by the server's clock.
        t4_ns: When the source received the answer, by its own clock.
        arrival_ns: When the sample was appended to its topic.
        offset: The position of the sample in its topic.
        server: The name of the server, if there are several.
        segment: The source's own count of the jumps of its clock.
        mono_ns: The source's wall clock minus its monotonic clock.
    """

    source: str
    t1_ns: int
    t2_ns: int
    t3_ns: int
    t4_ns: int
    arrival_ns: int
    offset: int = 0
    server: str = ""
    segment: int = 0
    mono_ns: int = UNKNOWN_MONO

    def is_plausible(self, granularity_ns: int) -> bool:
        """Return whether the round is plausible, and quick enough to be used.

        The difference of the clocks must fit 64 bits. By either clock, the answer must not precede
        the request, and neither the network nor the server may have taken too long.
        """
        return (
            abs(self.t2_ns - self.t1_ns) < SANE_NS
            and abs(self.t3_ns - self.t4_ns) < SANE_NS
            and -2 * granularity_ns <= self.round_trip_ns <= MAX_RTT_NS
            and self.t4_ns >= self.t1_ns
            and 0 <= self.t3_ns - self.t2_ns <= MAX_TURNAROUND_NS
        )

    @property
    def round_trip_ns(self) -> int:
        """The round trip time: the total time that both packets were in transit."""
        return (self.t4_ns - self.t1_ns) - (self.t3_ns - self.t2_ns)


@mypyc_attr(acyclic=True)
@dataclass(slots=True)
class Declared:
    """A user's declaration that a clock's offset is `offset_ns` +- `error_ns` from `at_ns` on.

    `at_ns` is an arrival time. The declaration overrides all measurements until the next
    declaration. An `offset_ns` of None revokes the previous one.
    """

    source: str
    at_ns: int
    offset_ns: int | None
    error_ns: int
    arrival_ns: int
    offset: int = 0
