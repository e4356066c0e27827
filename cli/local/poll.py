"""Waiting for a condition, with a bound."""

from __future__ import annotations

import time
from collections.abc import Callable

POLL_S = 0.05


def wait_until(true: Callable[[], bool], timeout_s: float, what: str) -> None:
    """Return once `true()` holds; TimeoutError, naming `what`, after `timeout_s`."""
    deadline_s = time.monotonic() + timeout_s
    while not true():
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"waited {timeout_s:g} s in vain for {what}")
        time.sleep(POLL_S)
