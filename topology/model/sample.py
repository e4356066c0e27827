"""Defines the reports about the clock of a source: rounds of time sync, and declared offsets.

D = server - source is the *offset*, which is added to a source's time. Its change is the *skew*. A
round bounds it from both sides, since no packet arrives before it is sent: t3 - t4 <= D <= t2 - t1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

UNKNOWN_MONO: Final = -(1 << 63)
"""The value of `Sample.mono_ns` for a source that does not report it."""


SANE_NS: Final = (1 << 63) - (1 << 40)
"""The largest plausible difference of two clocks, 292 years. It fits 64 bits."""
MAX_RTT_NS: Final = 1_000_000_000
"""Rounds that took longer are rejected."""
MAX_TURNAROUND_NS: Final = 1_000_000_000
"""Rounds in which the server took longer to answer are rejected."""


@dataclass(slots=True)
class Sample:
    """A round of time sync.

    The source's clock gives `t1_ns` (sent) and `t4_ns` (answered), and the server's clock gives
    `t2_ns` (received) and `t3_ns` (answered). `server` names the server, if there are several.
    `segment` is the source's own count of its clock's jumps, and `mono_ns` is its wall clock minus
    its monotonic clock. `arrival_ns` is when the sample was appended to its topic, and `offset` is
    its place there.
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

        The difference of the clocks must fit 64 bits. Each answer must come after its question, and
        neither the network nor the server may have taken too long.
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
        """The round trip time, T of (3.12): the time that both packets together were in transit."""
        return (self.t4_ns - self.t1_ns) - (self.t3_ns - self.t2_ns)


@dataclass(slots=True)
class Declared:
    """A user's declaration: from arrival `at_ns` on, the offset is `offset_ns` +- `error_ns`.

    It overrides all measurements until the next declaration. An `offset_ns` of None retracts it.
    """

    source: str
    at_ns: int
    offset_ns: int | None
    error_ns: int
    arrival_ns: int
    offset: int = 0
