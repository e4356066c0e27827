"""What CLOCK is asked for: the settings that it reads of a stream.

Proved by: tests/topology/clock/test_operator.py
"""

from __future__ import annotations

from typing import Literal, Protocol

Sync = Literal["none", "udp"]
ClockModel = Literal["polygon", "thesis"]
Unsynced = Literal["trust", "estimate", "reject"]


class ClockSettings(Protocol):
    """The section `clock` of a stream."""

    sync: Sync
    model: ClockModel
    unsynced: Unsynced
    max_ahead_ns: int
    max_behind_ns: int
    servers: int
    max_error_ns: int
    sync_window_ns: int
    stale_after_ns: int
    max_rtt_ns: int
    max_skew_ppb: int
    wander_ppb_per_min: int
    granularity_ns: int
    activation_ns: int
    broker_slack_ns: int
    passive_floor_ns: int
    mend_above_ns: int
    jump_min_ns: int
