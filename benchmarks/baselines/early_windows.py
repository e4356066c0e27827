"""Windows that may close before their end, where a strategy dares to: as ProbSlack's paper does it.

An answer about a time that is not over is seldom wanted, so no query can ask for it. A window
closes at the earliest at the end of the one before and one tick.
"""

from __future__ import annotations

from typing import Any

from topology.waiting.driver import WindowDriver
from topology.waiting.policy import SlackPolicy


class EarlyWindows(WindowDriver):
    """`first`: the number of the first window; None: the one that the first event falls into.
    The rest is `WindowDriver`'s."""

    def __init__(
        self,
        policy: SlackPolicy,
        every_ns: int,
        length_ns: int | None = None,
        *,
        tick_ns: int = 1,
        early: bool = True,
        first: int | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(policy, every_ns, length_ns, **settings)
        self._early_ns = every_ns - tick_ns if early else 0
        if first is not None:
            self._next = self._next_pending = first
