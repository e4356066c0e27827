"""What is reported about the clock of a source: rounds of time sync, and declared offsets.

D = server - source is the *offset*: it is added to a source's time. Its change is the
*skew*. A round bounds it from both sides, since no packet travels for less than nothing:
t3 - t4 <= D <= t2 - t1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

UNKNOWN_MONO: Final = -(1 << 63)
"""`Sample.mono_ns` of a source that does not report it."""


SANE_NS: Final = (1 << 63) - (1 << 40)
"""292 years: two clocks are less apart, so that their difference fits 64 bits."""
MAX_RTT_NS: Final = 1_000_000_000
"""Rounds that took longer are rejected."""
MAX_TURNAROUND_NS: Final = 1_000_000_000
"""Those for which the server took longer, too."""
MAX_OFFSET_NS: Final = 1 << 62
"""146 years: no declared offset is larger."""
MAX_DECLARED_ERROR_NS: Final = 3_600_000_000_000
"""An hour: who knows no better does not know the offset."""

ROUND: Final = ("t1", "t2", "t3", "t4")
MAX_SERVER: Final = 64


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


def read_word(
    source: str, values: Mapping[str, Any], arrival_ns: int, offset: int
) -> Sample | Declared | str:
    """What a record of `clock.offsets` says, or what is wrong with it.

    A round: `t1`, `t2`, `t3`, `t4`, and where they are known `server`, `segment`, `mono`. A
    declared offset: `at`, `offset` (null takes the last one back), `error`. Times are ns.
    """
    if any(values.get(key) is not None for key in ROUND):
        return _round(source, values, arrival_ns, offset)
    at_ns: Any = values.get("at")
    offset_ns: Any = values.get("offset")
    error_ns: Any = values.get("error")
    if "offset" not in values or not _is_int64(at_ns):
        return "it has neither t1, t2, t3, t4 nor at, offset, error"
    if offset_ns is None:
        return Declared(source, at_ns, None, 0, arrival_ns, offset)
    if not (_is_int64(offset_ns) and _is_int64(error_ns) and error_ns >= 0):
        return "offset and error are no integers of 64 bits, or error is negative"
    if abs(offset_ns) > MAX_OFFSET_NS or error_ns > MAX_DECLARED_ERROR_NS:
        return "offset is beyond 146 years, or error beyond an hour"
    return Declared(source, at_ns, offset_ns, error_ns, arrival_ns, offset)


def _round(source: str, values: Mapping[str, Any], arrival_ns: int, offset: int) -> Sample | str:
    times: list[Any] = [values.get(key) for key in ROUND]
    if not all(_is_int64(time) for time in times):
        return "t1, t2, t3, t4 are not all integers of 64 bits"
    server = values.get("server") or ""
    segment = values.get("segment") or 0
    mono_ns = values.get("mono")
    if mono_ns is None:
        mono_ns = UNKNOWN_MONO
    if not (isinstance(server, str) and len(server) <= MAX_SERVER):
        return "server is no text, or longer than 64 characters"
    if not (_is_int64(segment) and segment >= 0 and _is_int64(mono_ns)):
        return "segment or mono is no integer of 64 bits, or segment is negative"
    t1_ns, t2_ns, t3_ns, t4_ns = times
    return Sample(source, t1_ns, t2_ns, t3_ns, t4_ns, arrival_ns, offset, server, segment, mono_ns)


def _is_int64(value: Any) -> bool:
    return type(value) is int and -(1 << 63) <= value < 1 << 63
