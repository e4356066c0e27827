"""A wait of a given length, the simplest of all strategies, and a buffer for any strategy."""

from __future__ import annotations

from typing import Any

from benchmarks.published.clocked_slack import ClockedSlack
from topology.answer.waiting.policy import SlackPolicy
from topology.base.operator import NEVER
from topology.order.reorder.settings import ReorderConfig
from topology.order.reorder.time_buffer import TimeBuffer


class KSlack(ClockedSlack):
    """A strategy that waits `k_ns` >= 0; with 0 each event is passed on at once."""

    def __init__(self, k_ns: int, *, idle_ns: int = NEVER) -> None:
        super().__init__(idle_ns=idle_ns)
        self._k_ns = k_ns

    def slack_ns(self) -> int:
        return self._k_ns


def time_buffer(policy: SlackPolicy, ahead: int | None = None, **settings: Any) -> TimeBuffer:
    """Return a buffer by time with these settings for REORDER; by default it allows any wait."""
    settings = {"max_wait_ns": NEVER, "max_held": 1_000_000, **settings}
    return TimeBuffer(policy, ReorderConfig(**settings), max_ahead_ns=ahead)
