"""End to end: two workers, one of which is restarted in good order while events flow.

Counted is how often partitions are opened, which is what a restart costs: each opening restores.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.workloads import crowd
from benchmarks.workloads.crowd import RATE_HZ
from tests.end_to_end.oracle import assert_sound
from tests.end_to_end.records import Sender
from tests.end_to_end.setting import FUSED, settle
from tests.end_to_end.waiting import Emitted
from tests.end_to_end.worker import Worker, running
from tests.services import SharedKafka

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

EVENTS = 6_000
PARTITIONS = 4
SESSION_S = 30
"""Longer than a start takes, however busy the machine."""


def opened(worker: Worker) -> int:
    return worker.log.count(": begins at ")


@pytest.mark.parametrize(("name", "opened_again"), [("", PARTITIONS // 2), ("kept", 0)])
def test_a_restart_opens_what_moves_and_nothing_else(
    kafka: SharedKafka, tmp_path: Path, name: str, opened_again: int
) -> None:
    """Without a name the worker leaves: its partitions go to the other one, and come back. With one
    nobody has them meanwhile."""
    setting = settle(kafka.bootstrap, tmp_path, stages=FUSED, partitions=PARTITIONS)
    rows = crowd(EVENTS, seed=3).rows
    stays, goes = (
        Worker(
            f"w{number}",
            setting.path,
            setting.bootstrap,
            tmp_path,
            *("--session", f"{SESSION_S}s"),
            *(("--instance", f"{name}{number}") if name else ()),
        )
        for number in range(2)
    )
    with running(stays, goes):
        stays.wait_ready()
        goes.wait_ready()
        before = opened(stays)
        sender = Sender(setting, rows, speed=1_000.0 / RATE_HZ).start()
        emitted = Emitted(setting)
        emitted.wait_for(EVENTS // 10)
        assert goes.stop() == 0, goes.log
        goes.begin()
        emitted.wait_for(len({(row.source, row.seq) for row in rows}))
        sender.finish()
        emitted.close()
        assert opened(stays) - before == opened_again, stays.log
        assert stays.stop() == 0, stays.log
    assert_sound(setting)
