"""Buffers by time for a whole stream."""

from __future__ import annotations

from typing import Any

from topology.model.operator import NEVER
from topology.reorder.settings import ReorderConfig
from topology.reorder.time_buffer import TimeBuffer
from topology.waiting.policy import SlackPolicy


def time_buffer(
    policy: SlackPolicy, *, max_ahead_ns: int | None = None, **settings: Any
) -> TimeBuffer:
    """A buffer with these settings of REORDER; without `max_wait_ns`, no wait is too long."""
    config = ReorderConfig(**{"max_wait_ns": NEVER, "max_held": 1_000_000, **settings})
    return TimeBuffer(policy, config, max_ahead_ns=max_ahead_ns)
