"""Repeats steps after temporary failures, a bounded number of times."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, TypeVar

from sinks.sink import SinkError

ATTEMPTS: Final = 3
BACKOFF_S: Final = 0.1
"""Pause before the second attempt; it doubles before the third."""

T = TypeVar("T")
E = TypeVar("E", bound=Exception)


def retry(step: Callable[[], T], passing: type[E], failure: Callable[[E], SinkError]) -> T:
    """Return the result of `step`, repeating it after errors of the type `passing`.

    After `ATTEMPTS` failures, raise the exception that `failure` creates from the last error.
    """
    for attempt in range(1, ATTEMPTS):
        try:
            return step()
        except passing:
            time.sleep(BACKOFF_S * 2 ** (attempt - 1))
    try:
        return step()
    except passing as error:
        raise failure(error) from error
