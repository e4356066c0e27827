"""End to end: a worker's page shows its partitions and late events."""

from __future__ import annotations

import json
import time
from typing import Any
from urllib.request import urlopen

import pytest

from tests.end_to_end.records import contract, send
from tests.end_to_end.setting import SPLIT, Settles
from tests.end_to_end.waiting import wait_out
from tests.end_to_end.worker import Worker, at_work
from tests.waiting import wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.programs, pytest.mark.slow]

ASK_TIMEOUT_S = 30.0
MS = 1_000_000
PARTITIONS = 2


def view_of(worker: Worker) -> dict[str, Any]:
    with urlopen(f"http://{worker.address}/events", timeout=ASK_TIMEOUT_S) as events:
        found: dict[str, Any] = json.loads(events.readline().removeprefix(b"data: "))
        return found


def test_page_shows_late_events_once(settles: Settles) -> None:
    waits = "reorder: {rule: fixed, max_wait: 50ms, start: zero}"
    setting = settles(stages=SPLIT, partitions=PARTITIONS, stream=waits)
    with at_work(setting) as worker:
        now_ns = time.time_ns()
        send(setting, [("s", b"{}", contract("s", seq, now_ns + seq * MS)) for seq in (0, 2)])
        wait_out(setting, 2)  # Number 1 has been given up.
        send(setting, [("s", b"{}", contract("s", 1, now_ns + MS))])

        def late() -> list[tuple[str, int]]:
            return [(each["source"], each["first"]) for each in view_of(worker)["late"]]

        wait_until(lambda: bool(late()), "the late event")
        assert late() == [("s", 1)], "once, though merge gets it marked late"
        parts = view_of(worker)["partitions"]
        names = {(part["stage"], part["name"]) for part in parts}
        assert len(names) == len(parts) == 2 * PARTITIONS
        assert any(part["checkpoint_bytes"] for part in parts)
        assert all(part["restore_s"] is not None for part in parts)
