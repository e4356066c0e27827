"""End to end: "Kafka is down" in docs/operate/outages.md, on a broker that is down for minutes."""

from __future__ import annotations

from pathlib import Path

import pytest

from agents.exits import Exit
from benchmarks.workloads import crowd
from cli.local.kafka import KafkaBroker
from infra.kafka import ContainerBroker
from tests.end_to_end.oracle import assert_sound
from tests.end_to_end.records import Sender
from tests.end_to_end.setting import FUSED, settle
from tests.end_to_end.waiting import Emitted
from tests.end_to_end.worker import Worker, running
from tests.waiting import wait_until

pytestmark = [pytest.mark.chaos, pytest.mark.kafka]

EVENTS = 1_000
RESTART_S = 150.0
"""A stage restarts after a minute without progress."""


def test_worker_waits_exits_and_resumes(
    own_kafka: KafkaBroker | ContainerBroker, tmp_path: Path
) -> None:
    setting = settle(own_kafka.bootstrap, tmp_path, stages=FUSED, partitions=1)
    rows = crowd(EVENTS, seed=3).rows
    count = len({(row.source, row.seq) for row in rows})
    worker = Worker("w", setting.path, setting.bootstrap, tmp_path, "--brokers-wait", "5s")
    with running(worker):
        worker.wait_ready()
        emitted = Emitted(setting)
        Sender(setting, rows).start().finish()
        emitted.wait_for(count)
        own_kafka.kill()
        wait_until(lambda: worker.ask("ready")[0] == 503, "that it is not ready")
        wait_until(lambda: not worker.alive, "its end", lambda: worker.log, quiet_s=RESTART_S)
        assert worker.exit_code() == Exit.REFUSED, worker.log[-3000:]
        own_kafka.restart()
        worker.start()
        worker.wait_ready()
        Sender(setting, rows, epoch=1).start().finish()
        emitted.wait_for(2 * count)
        emitted.close()
        assert worker.stop() == 0, worker.log[-3000:]
    assert_sound(setting)
