"""Waits for a condition, with a time limit that allows for a busy machine.

The seconds of the limit pass more slowly if more processes share a processor.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

POLL_S = 0.05


class Countdown:
    """A time limit that passes after `timeout_s` on an idle machine, and later on a busy one."""

    def __init__(self, timeout_s: float) -> None:
        self._left_s = timeout_s
        self._last_s = time.monotonic()

    def has_passed(self) -> bool:
        """Return whether the limit has passed; call it often, because the load changes."""
        now_s = time.monotonic()
        self._left_s -= (now_s - self._last_s) / share_of_processors()
        self._last_s = now_s
        return self._left_s < 0


def share_of_processors() -> float:
    """Return the average number of processes that share a processor, at least 1."""
    return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


def wait_until(true: Callable[[], bool], timeout_s: float, what: str) -> None:
    """Return once `true()` is true; raise TimeoutError, which names `what`, after `timeout_s`."""
    countdown = Countdown(timeout_s)
    while not true():
        if countdown.has_passed():
            raise TimeoutError(f"waited {timeout_s:g} s in vain for {what}")
        time.sleep(POLL_S)
