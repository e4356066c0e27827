"""End to end: a stage is not ready if it waits for a stage that is gone, and names what it waits
for.

Both recover when a worker has the partitions again.
"""

from __future__ import annotations

import time

import pytest

from tests.end_to_end.records import contract, send
from tests.end_to_end.setting import Settles
from tests.end_to_end.worker import running, worker_on
from tests.waiting import wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.chaos]

SOUND_S = 15.0
QUIET_S = 240.0
"""Time longer than all waits of the file, and the margin (agents.watch.overdue)."""

WAITS = (
    "reorder: {max_wait: 100ms},"
    " merge: {max_wait: 10s, idle_after: 20s, quiet_after: 20s, outage_wait: 0s}"
)


def test_overdue_stage_is_not_ready(settles: Settles) -> None:
    setting = settles(partitions=1, stream=WAITS, more="transaction_timeout: 2s\n")
    first, again = (
        worker_on(setting, "--stage", "reorder", name=name) for name in ("first", "again")
    )
    merge = worker_on(setting, "--stage", "merge", name="merge")

    def held() -> float:
        return merge.metrics().get("records_held:merge", 0.0)

    with running(first, merge, may_start=[again]):
        first.wait_ready()
        merge.wait_ready()
        now_ns = time.time_ns()
        send(setting, [(name, b"{}", contract(name, 0, now_ns)) for name in ("a", "b")])
        send(setting, [("a", b"{}", contract("a", 1, now_ns + 1_000_000))])  # It waits for b.
        wait_until(lambda: held() > 0, "an event that waits", lambda: merge.log)
        first.kill_all()
        began_s = time.monotonic()
        wait_until(lambda: merge.ask("ready")[0] == 503, "503", lambda: merge.log, quiet_s=QUIET_S)
        assert time.monotonic() - began_s > SOUND_S, "it is given time"
        reasons = str(merge.ask("ready")[1])
        assert "longer than all waits of the topology file" in reasons
        assert f"progress of {setting.raw}/0" in reasons
        (shown,) = [each for each in merge.families() if each.name == "inorder_overdue_seconds"]
        (sample,) = shown.samples
        assert sample.labels["waits_for"] == f"progress of {setting.raw}/0"
        assert sample.value > 0
        again.begin()
        merge.wait_ready()
        wait_until(lambda: held() == 0, "the event to leave", lambda: merge.log)
        assert "overdue_seconds:merge" not in merge.metrics()
