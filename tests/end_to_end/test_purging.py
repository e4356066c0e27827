"""End to end: what all stages are done with of the sequenced topic is deleted, and a worker that is
killed right after that goes on exactly."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from benchmarks.workloads import crowd
from benchmarks.workloads.crowd import RATE_HZ
from tests.end_to_end.oracle import assert_sound
from tests.end_to_end.records import Sender
from tests.end_to_end.setting import SPLIT, Setting, settle
from tests.end_to_end.waiting import Emitted
from tests.end_to_end.worker import at_work
from tests.services import SharedKafka
from tests.waiting import wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

EVENTS = 9_000
RATE = 1_000.0
QUIET_S = 30.0


class Beginnings:
    """Where the sequenced topic begins."""

    def __init__(self, setting: Setting) -> None:
        self._topic = setting.topology.topics.sequenced
        self._consumer = Consumer({"bootstrap.servers": setting.bootstrap, "group.id": "looks"})

    def first(self) -> int:
        place = TopicPartition(self._topic, 0)
        return int(self._consumer.get_watermark_offsets(place, timeout=10.0)[0])

    def close(self) -> None:
        self._consumer.close()


def test_a_kill_after_a_purge_loses_nothing(kafka: SharedKafka, tmp_path: Path) -> None:
    setting = settle(kafka.bootstrap, tmp_path, stages=SPLIT, partitions=1)
    rows = crowd(EVENTS, seed=3).rows
    begins = Beginnings(setting)
    with at_work(setting, tmp_path, name="w") as worker:
        sender = Sender(setting, rows, speed=RATE / RATE_HZ).start()
        emitted = Emitted(setting)
        wait_until(
            lambda: emitted.poll() < 0 or begins.first() > 0,
            "the first purge",
            lambda: worker.log,
            quiet_s=QUIET_S,
        )
        worker.kill_all()
        worker.begin()
        emitted.wait_for(len({(row.source, row.seq) for row in rows}))
        sender.finish()
        emitted.close()
        assert begins.first() > 0
    begins.close()
    assert_sound(setting)
