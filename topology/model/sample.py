"""What is reported about the clock of a source: rounds of time sync, and declared offsets.

D = server - source is the *offset*: it is added to a source's time. Its change is the
*skew*. A round bounds it from both sides, since no packet travels for less than nothing:
t3 - t4 <= D <= t2 - t1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

UNKNOWN_MONO: Final = -(1 << 63)
"""`Sample.mono_ns` of a source that does not report it."""


SANE_NS: Final = (1 << 63) - (1 << 40)
"""292 years: two clocks are less apart, so that their difference fits 64 bits."""
MAX_RTT_NS: Final = 1_000_000_000
"""Rounds that took longer are rejected."""
MAX_TURNAROUND_NS: Final = 1_000_000_000
"""Those for which the server took longer, too."""


@dataclass(slots=True)
class Sample:
    """One round of time sync.

    `t1_ns` sent and `t4_ns` answered by the source's clock, `t2_ns` received and `t3_ns`
    answered by the server's. `server` names the server, where there are several.
    `segment` is the source's own count of its clock's jumps, `mono_ns` its wall clock
    minus its monotonic clock. `arrival_ns` is when the sample was appended to its topic,
    `offset` its place there.
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
        """The clocks differ by so little that their difference can be reckoned with, answers come
        after questions, and neither the way nor the server took too long."""
        return (
            abs(self.t2_ns - self.t1_ns) < SANE_NS
            and abs(self.t3_ns - self.t4_ns) < SANE_NS
            and -2 * granularity_ns <= self.round_trip_ns <= MAX_RTT_NS
            and self.t4_ns >= self.t1_ns
            and 0 <= self.t3_ns - self.t2_ns <= MAX_TURNAROUND_NS
        )

    @property
    def round_trip_ns(self) -> int:
        """T of (3.12): the time both packets were on their way."""
        return (self.t4_ns - self.t1_ns) - (self.t3_ns - self.t2_ns)


@dataclass(slots=True)
class Declared:
    """A declaration of a user: from arrival `at_ns` on the offset is `offset_ns`, give or take
    `error_ns`. It overrides all that is measured, until the next one; None takes
    it back."""

    source: str
    at_ns: int
    offset_ns: int | None
    error_ns: int
    arrival_ns: int
    offset: int = 0
