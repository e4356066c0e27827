"""Waits for as long as there is progress, since a busy machine is slow without any fault."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from typing import Final

STILL_S: Final = 120.0
"""The longest time without any progress after which a wait goes on."""

REPORT_EVERY_S: Final = 5.0


class Patience:
    """A wait that lasts while there is progress; `report` gets a sentence about it now and then."""

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
        """Return whether to continue the wait for `waited_for`; any progress changes `state`."""
        now_s = self._now_s()
        if state != self._state:
            self._state, self._changed_s = state, now_s
        if now_s - self._reported_s >= REPORT_EVERY_S:
            self._reported_s = now_s
            self._report(f"waiting for {waited_for} ({now_s - self._began_s:.0f} s)")
        return now_s - self._changed_s < self._still_s
