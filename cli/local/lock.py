"""An advisory lock on a file, between processes of one machine.

The kernel gives the lock up when its holder dies, so nothing is ever stale.
"""

from __future__ import annotations

import fcntl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

POLL_S = 0.1


@contextmanager
def exclusive(path: Path, timeout_s: float) -> Iterator[None]:
    """Hold the lock on `path` (made where it is absent) for the body's time.

    Raises TimeoutError if another process holds it for longer than `timeout_s`.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    deadline_s = time.monotonic() + timeout_s
    with path.open("a") as file:
        while not _taken(file.fileno()):
            if time.monotonic() > deadline_s:
                raise TimeoutError(
                    f"{path} has been locked by another process for {timeout_s:g} s;"
                    " end that process or wait for it"
                )
            time.sleep(POLL_S)
        yield


def _taken(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
