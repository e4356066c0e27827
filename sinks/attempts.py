"""What may pass is tried again, a bounded number of times."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, TypeVar

from sinks.sink import SinkUnavailable

ATTEMPTS: Final = 3
BACKOFF_S: Final = 0.1
"""Before the second attempt; twice that before the third."""

T = TypeVar("T")
E = TypeVar("E", bound=Exception)


def insist(
    step: Callable[[int], T],
    passing: type[E] | tuple[type[E], ...],
    unavailable: Callable[[E, int], SinkUnavailable],
) -> T:
    """What `step` answers; it gets the number of the attempt. After ATTEMPTS failures of the
    `passing` kinds what `unavailable` makes of the last is raised."""
    attempt = 1
    while True:
        try:
            return step(attempt)
        except passing as error:
            if attempt == ATTEMPTS:
                raise unavailable(error, attempt) from error
        time.sleep(BACKOFF_S * 2 ** (attempt - 1))
        attempt += 1
