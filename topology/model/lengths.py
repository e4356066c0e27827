"""How long windows and intervals may be, and in how many windows an event may lie."""

from __future__ import annotations

from typing import Final

MAX_LENGTH_NS: Final = 100 * 366 * 86_400 * 10**9
"""A hundred years; longer ones are a slip."""

MAX_SLICES: Final = 10_000
"""Windows that one event may belong to."""

ELSEWHERE: Final = {
    "m": "min",
    **dict.fromkeys(("mins", "minute", "minutes"), "min"),
    **dict.fromkeys(("sec", "secs", "second", "seconds"), "s"),
    **dict.fromkeys(("hr", "hrs", "hour", "hours"), "h"),
    **dict.fromkeys(("day", "days"), "d"),
    **dict.fromkeys(("msec", "msecs", "millis", "millisecond", "milliseconds"), "ms"),
    **dict.fromkeys(("usec", "usecs", "micros", "microseconds", "µs", "μs"), "us"),
    **dict.fromkeys(("nsec", "nanos", "nanoseconds"), "ns"),
    "kb": "KiB",
    "mb": "MiB",
    "gb": "GiB",
    "k": "KiB",
    "g": "GiB",
    "bytes": "B",
}
"""Units as other programs spell them, and ours. `m` is a minute where lengths of time are meant."""
