"""Locks a file between processes of one machine, by an advisory lock.

The kernel releases the lock when its holder dies, so a lock is never stale.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cli.local.poll import wait_until


@contextmanager
def lock_file(path: Path, timeout_s: float) -> Iterator[None]:
    """Hold the lock on `path`, which is created if absent, during the body.

    Raises TimeoutError if another process holds it for longer than `timeout_s`.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        lock = f"{path}, which is locked by another process; end that process or wait for it"
        wait_until(lambda: _take(file.fileno()), timeout_s, lock)
        yield


def _take(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
