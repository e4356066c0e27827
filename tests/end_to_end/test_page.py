"""End to end: what the page of one of two workers knows of both."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from cli.local.poll import wait_until
from cli.local.ports import free_ports
from tests.end_to_end.records import contract, send
from tests.end_to_end.setting import SPLIT, settle
from tests.end_to_end.waiting import Emitted
from tests.end_to_end.worker import Worker, running
from tests.services import SharedKafka

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

TIMEOUT_S = 40.0
ASK_TIMEOUT_S = 30.0
MS = 1_000_000
PARTITIONS = 2


def view_of(worker: Worker) -> dict[str, Any]:
    with urlopen(f"http://{worker.address}/events", timeout=ASK_TIMEOUT_S) as events:
        found: dict[str, Any] = json.loads(events.readline().removeprefix(b"data: "))
        return found


def owned(view: dict[str, Any]) -> dict[str, set[str]]:
    """By stage the partitions that this worker and its peers have."""
    found: dict[str, set[str]] = {}
    for part in view["partitions"]:
        found.setdefault(part["stage"], set()).add(part["name"])
    for other in view["others"]:
        for stage, names in other["stages"].items():
            assert not found.get(stage, set()) & set(names), "two workers have it"
            found.setdefault(stage, set()).update(names)
    return found


def test_who_has_which_partition_and_what_was_late(kafka: SharedKafka, tmp_path: Path) -> None:
    waits = "reorder: {rule: fixed, max_wait: 50ms, start: zero}"
    setting = settle(kafka.bootstrap, tmp_path, stages=SPLIT, partitions=PARTITIONS, stream=waits)
    ports = free_ports(2)
    peers = ",".join(f"http://127.0.0.1:{port}" for port in ports)
    one, other = (
        Worker(
            name,
            setting.path,
            setting.bootstrap,
            tmp_path,
            *("--http", f"127.0.0.1:{port}", "--peers", peers),
        )
        for name, port in zip("ab", ports, strict=True)
    )

    def is_whole() -> bool:
        """Each worker has seen that all partitions are owned, once."""
        try:
            found = [owned(view_of(worker)) for worker in (one, other)]
        except AssertionError:
            return False  # a rebalance goes on: the peers' answers are some seconds old
        counts = [{stage: len(names) for stage, names in each.items()} for each in found]
        return counts == [{"reorder": PARTITIONS, "merge": PARTITIONS}] * 2

    with running(one, other):
        one.wait_ready()
        other.wait_ready()
        now_ns = time.time_ns()
        send(setting, [("s", b"{}", contract("s", seq, now_ns + seq * MS)) for seq in (0, 2)])
        emitted = Emitted(setting)
        emitted.wait_for(2)  # number 1 has been given up
        emitted.close()
        send(setting, [("s", b"{}", contract("s", 1, now_ns + MS))])

        def late() -> list[tuple[str, int]]:
            views = (view_of(worker) for worker in (one, other))
            return [(each["source"], each["first"]) for view in views for each in view["late"]]

        wait_until(lambda: bool(late()), TIMEOUT_S, "the late event")
        assert late() == [("s", 1)], "once, though merge gets it marked late"
        wait_until(is_whole, TIMEOUT_S, "all partitions to be shown")
        parts = [part for worker in (one, other) for part in view_of(worker)["partitions"]]
        assert any(part["checkpoint_bytes"] for part in parts)
        assert all(part["restore_s"] is not None for part in parts)
