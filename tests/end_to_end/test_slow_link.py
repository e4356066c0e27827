"""End to end: over a slow link transactions are as large as it carries in time, with a backlog too.

At 4 MB/s what `MAX_BATCH` allows at once takes longer than `transaction_timeout`: the brokers would
abort it, and the partition would be restored and read again, time after time.
"""

from __future__ import annotations

import random
import time
from dataclasses import replace
from pathlib import Path

import pytest

from infra.kafka import missing
from tests.end_to_end.numbered import NUMBERED
from tests.end_to_end.oracle import assert_sound
from tests.end_to_end.records import contract, send
from tests.end_to_end.setting import fused
from tests.end_to_end.waiting import wait_out
from tests.end_to_end.way_to_brokers import cluster
from tests.end_to_end.worker import at_work
from tests.services import require

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

BYTES_PER_S = 4e6
EVENTS, SOURCES, EVENT_BYTES = 10_000, 4, 2_000
TIMES = "transaction_timeout: 2s\n"


def test_a_backlog_is_read_once(tmp_path: Path) -> None:
    require(missing())
    dice = random.Random(1)
    now_ns = time.time_ns()
    with cluster(tmp_path / "kafka") as brokers:
        setting = fused(brokers.direct, tmp_path, stream=NUMBERED, more=TIMES)
        records = (
            (f"s{number % SOURCES}", dice.randbytes(EVENT_BYTES), number // SOURCES)
            for number in range(EVENTS)
        )
        send(setting, ((s, value, contract(s, seq, now_ns + seq)) for s, value, seq in records))
        for way in brokers.ways:
            way.bytes_per_s = BYTES_PER_S
        through = replace(setting, bootstrap=brokers.through)
        with at_work(through) as worker:
            wait_out(setting, EVENTS)
            counted = {name.partition(":")[0]: count for name, count in worker.metrics().items()}
        assert_sound(setting)
    read, commits = counted["records_in"], counted["checkpoint_commits"]
    print(f"read {read:.0f}, {commits:.0f} commits")
    assert read < 1.2 * EVENTS
    assert commits >= 5
