"""Waits for other processes: until a condition holds, or until nothing changes any more.

A busy machine is slow, which is no fault, so these waits have no deadline. They end in an
AssertionError when nothing that they watch has changed for `QUIET_S`. These seconds pass more
slowly if the machine is busy (cli/local/poll.py).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from inspect import isawaitable
from typing import Any

from cli.local.poll import Countdown, share_of_processors

QUIET_S = 60.0
POLL_S = 0.05


def calm_s(since_s: float) -> float:
    """Return the seconds since `since_s` (monotonic), which pass slower if the machine is busy.

    Use it in a test that something takes less time than a wait would.
    """
    return (time.monotonic() - since_s) / share_of_processors()


class Patience:
    """A wait that fails after `quiet_s` without a change."""

    def __init__(self, quiet_s: float = QUIET_S) -> None:
        self._quiet_s = quiet_s
        self._seen: object = None
        self._countdown = Countdown(quiet_s)

    def look(self, seen: object, what: Callable[[], str]) -> None:
        """Fail if `seen` has not changed for too long; `what` names the awaited thing."""
        if seen != self._seen:
            self._seen, self._countdown = seen, Countdown(self._quiet_s)
        assert not self._countdown.has_passed(), (
            f"waited in vain for {what()}; nothing has moved for {self._quiet_s:g} s"
        )


def wait_until(
    true: Callable[[], bool],
    what: str,
    moves: Callable[[], object] = lambda: None,
    *,
    quiet_s: float = QUIET_S,
) -> None:
    """Return once `true()` holds; `moves` returns something that changes with any progress."""
    patience = Patience(quiet_s)
    while not true():
        patience.look(moves(), lambda: what)
        time.sleep(POLL_S)


async def until(true: Callable[[], Any]) -> Any:
    """Return the first true result of `true()`, which is awaited if necessary."""
    patience = Patience()
    while True:
        said = true()
        if found := await said if isawaitable(said) else said:
            return found
        patience.look(None, lambda: f"{getattr(true, '__name__', true)}, which says {found}")
        await asyncio.sleep(POLL_S / 5)
