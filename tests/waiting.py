"""Waiting for what other processes do: until it is so, or until nothing moves any more.

A busy machine is slow, and that is no fault: no wait has a deadline. It ends in an AssertionError
when what it watches has been the same for `QUIET_S`; and the more processes share the processors,
the slower these seconds pass.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

QUIET_S = 60.0
POLL_S = 0.05


class Patience:
    """Ends at `quiet_s` without a change."""

    def __init__(self, quiet_s: float = QUIET_S) -> None:
        self._quiet_s = quiet_s
        self._seen: object = None
        self._spent_s = 0.0
        self._last_s = time.monotonic()

    def look(self, seen: object, what: Callable[[], str]) -> None:
        """`seen` changes as things go on; `what` is waited for."""
        now_s = time.monotonic()
        self._spent_s += (now_s - self._last_s) / share_of_processors()
        self._last_s = now_s
        if seen != self._seen:
            self._seen, self._spent_s = seen, 0.0
        assert self._spent_s < self._quiet_s, (
            f"waited in vain for {what()}; nothing has moved for {self._quiet_s:g} s"
        )


def share_of_processors() -> float:
    """How many processes want each processor, at least one."""
    return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


def wait_until(
    true: Callable[[], bool],
    what: str,
    moves: Callable[[], object] = lambda: None,
    *,
    quiet_s: float = QUIET_S,
) -> None:
    """Return once `true()` holds. `moves`: what changes as long as things go on."""
    patience = Patience(quiet_s)
    while not true():
        patience.look(moves(), lambda: what)
        time.sleep(POLL_S)
