"""Close windows before their end if a strategy decides so, as in ProbSlack's paper.

A result about a time that is not over is seldom useful, so no query can request it. A window closes
at the earliest one tick after the end of the window before it.
"""

from __future__ import annotations

from typing import Any

from topology.answer.waiting.driver import WindowDriver
from topology.answer.waiting.policy import SlackPolicy


class EarlyWindows(WindowDriver):
    """A `WindowDriver` that may close windows before their end.

    `first` is the number of the first window; with None it is the window of the first event.
    """

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
