"""Numbered events of many sources, sent and awaited."""

from __future__ import annotations

import time
from pathlib import Path

from tests.end_to_end.records import Headers, contract, send
from tests.end_to_end.setting import Setting
from tests.end_to_end.waiting import Emitted
from tests.end_to_end.worker import Worker

TIMEOUT_S = 60.0
NUMBERED = "reorder: {start: zero}, merge: {idle_after: 1s}"


def worker_of(setting: Setting, folder: Path, workers: list[Worker]) -> Worker:
    worker = Worker("a", setting.path, setting.bootstrap, folder)
    workers.append(worker)
    return worker


def numbered(sources: int, *numbers: int) -> list[tuple[str, bytes, Headers]]:
    now_ns = time.time_ns()
    return [
        (f"s{source}", b"%d" % seq, contract(f"s{source}", seq, now_ns + seq, 0))
        for seq in numbers
        for source in range(sources)
    ]


def send_all(setting: Setting, sources: int, *numbers: int) -> None:
    send(setting, numbered(sources, *numbers))


def wait_out(setting: Setting, count: int) -> None:
    emitted = Emitted(setting)
    emitted.wait_for(count)
    emitted.close()
