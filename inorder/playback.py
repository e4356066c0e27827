"""Name the header by which a recording that is played back keeps its arrival times.

A broker that sets no arrival times (the one of `inorder dev`) stores the timestamp of the producer.
In a record with this header, that timestamp is the recorded arrival time, shifted to the present.
Otherwise it is the time of sending, and all records of a fast playback would arrive at one instant.

The header's value is the wall-clock time in ms until which more of the recording may follow. Until
then a reader takes the time from records alone. Otherwise its own clock would overtake the records
that are still to come. The last record has `b"0"`, because nothing follows.
"""

from __future__ import annotations

from typing import Final

PLAYBACK: Final = "inorder-playback"
OVER: Final = 0
"""The value in the last record."""

GRACE_MS: Final = 30_000
"""How long a record may be overdue before its recording counts as broken off."""

STALE_NS: Final = 3_600_000_000_000
"""How far the newest timestamp may be behind the last arrival before a warning: an hour."""

MADE_UP_NS: Final = 946_684_800_000_000_000
"""The year 2000. Timestamps before it are made up, as in tests."""


def describe_staleness(newest_ns: int, arrival_ns: int) -> str:
    """Return a warning if even the newest timestamp is far behind the last arrival, else ""."""
    behind_ns = arrival_ns - newest_ns
    if newest_ns < MADE_UP_NS or behind_ns <= STALE_NS:
        return ""
    return (
        f"stamps are {behind_ns / STALE_NS:.0f} h behind arrivals, so clocks and waits are not"
        " those of the recording; publish it by `inorder produce --as-now`"
    )


def encode(until_ms: int) -> tuple[str, bytes]:
    """Return the header of a record."""
    return PLAYBACK, b"%d" % until_ms


def decode(value: bytes | None) -> int:
    """Return the time in ms; `OVER` if the value is not one."""
    return int(value) if value is not None and value.isdigit() and len(value) <= 15 else OVER
