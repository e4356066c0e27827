"""End to end: a quota of the brokers is below a worker's need, and the worker reports this."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.local.kafka import KafkaBroker, jars
from tests.end_to_end.kafka_tools import lift_default_quota, set_default_quota
from tests.end_to_end.records import contract, send
from tests.end_to_end.setting import fused
from tests.end_to_end.waiting import wait_out
from tests.end_to_end.worker import at_work
from tests.services import require

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

PAYLOAD = b'{"pad": "%s"}' % (b"x" * 1_000)
SMALL = 2_000
"""A quota in bytes per second."""

EVENTS = 40


def test_throttled_worker_names_quota(tmp_path: Path) -> None:
    """A throttled worker's stages neither end nor restart, and the worker resumes when the quota is
    lifted.
    """
    require(jars.missing())
    with KafkaBroker(tmp_path / "kafka", heap_mib=256) as broker:
        setting = fused(broker.bootstrap, tmp_path)
        with at_work(setting) as worker:
            stages = worker.stages()
            events = [("s", PAYLOAD, contract("s", number)) for number in range(EVENTS)]
            set_default_quota(broker.bootstrap, SMALL)
            send(setting, events)
            worker.await_true(
                lambda: "throttled by a quota: " in str(worker.ask("ready")[1]), "the quota's name"
            )
            lift_default_quota(broker.bootstrap)
            wait_out(setting, EVENTS)
            worker.await_true(
                lambda: worker.ask("ready") == (200, {"ok": True, "reasons": []}), "no more notes"
            )
            assert worker.stages() == stages
