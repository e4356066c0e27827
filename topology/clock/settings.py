"""What CLOCK is asked for: the settings that it reads of a stream."""

from __future__ import annotations

from typing import Final, Literal, Protocol

Sync = Literal["none", "udp"]
Unsynced = Literal["trust", "estimate", "reject"]

STALE_AFTER_NS: Final = 180_000_000_000
"""Without a good round for so long the error of a clock grows."""
MAX_RTT_NS: Final = 1_000_000_000
"""Rounds that took longer are rejected."""
PASSIVE_FLOOR_NS: Final = 40_000_000
"""The longest that the quickest events of a source usually take (`estimate`)."""


class ClockSettings(Protocol):
    """The section `clock` of a stream."""

    sync: Sync
    unsynced: Unsynced
    max_ahead_ns: int
    max_behind_ns: int
    servers: int
    max_error_ns: int
    sync_window_ns: int
    max_skew_ppb: int
    wander_ppb_per_min: int
    granularity_ns: int
    activation_ns: int
    broker_slack_ns: int
    mend_above_ns: int
    jump_min_ns: int
