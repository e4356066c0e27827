"""Waits for as long as there is progress, because a busy machine may be slow without a fault."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from typing import Final

STILL_S: Final = 120.0
"""The time in seconds without any progress after which a wait is given up."""

REPORT_EVERY_S: Final = 5.0


class Patience:
    """A wait that lasts while there is progress; `report` regularly gets a sentence about it."""

    def __init__(
        self,
        report: Callable[[str], None],
        still_s: float = STILL_S,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._report = report
        self._still_s = still_s
        self._now_s = now_s
        self._began_s = self._changed_s = self._reported_s = now_s()
        self._state: Hashable = None

    def lasts(self, state: Hashable, waited_for: str) -> bool:
        """Return whether to go on waiting for `waited_for`; progress is any change of `state`."""
        now_s = self._now_s()
        if state != self._state:
            self._state, self._changed_s = state, now_s
        if now_s - self._reported_s >= REPORT_EVERY_S:
            self._reported_s = now_s
            self._report(f"waiting for {waited_for} ({now_s - self._began_s:.0f} s)")
        return now_s - self._changed_s < self._still_s
