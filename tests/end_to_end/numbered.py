"""Send numbered events of many sources, and wait for them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from tests.end_to_end.records import Headers, contract, send
from tests.end_to_end.setting import Setting
from tests.end_to_end.waiting import wait_out
from tests.end_to_end.worker import Worker

TIMEOUT_S: Final = 60.0
NUMBERED: Final = "reorder: {start: zero}, merge: {idle_after: 1s}"
SOURCES: Final = 20

Begun = Callable[..., tuple[Setting, Worker]]
"""A function that makes a new application and starts its worker, which is ready (conftest.py)."""


def numbered(sources: int, *numbers: int) -> list[tuple[str, bytes, Headers]]:
    now_ns = time.time_ns()
    return [
        (f"s{source}", b"%d" % seq, contract(f"s{source}", seq, now_ns + seq, 0))
        for seq in numbers
        for source in range(sources)
    ]


def send_all(setting: Setting, sources: int, *numbers: int) -> None:
    send(setting, numbered(sources, *numbers))


def send_two_of_each(setting: Setting) -> None:
    """Send two events from each of `SOURCES` sources, and wait until they are emitted."""
    send_all(setting, SOURCES, 0, 1)
    wait_out(setting, 2 * SOURCES)


def stop(worker: Worker) -> None:
    """Stop the worker, and assert that it exits with 0."""
    assert worker.stop() == 0, worker.log[-3000:]
