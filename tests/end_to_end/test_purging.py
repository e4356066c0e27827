"""End to end: what all stages are done with of the sequenced topic is deleted, and a worker that is
killed right after that goes on exactly."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.end_to_end.flow import flowing
from tests.end_to_end.setting import Setting, Settles
from tests.end_to_end.worker import worker_on
from tests.waiting import wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

EVENTS = 9_000
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


def test_a_kill_after_a_purge_loses_nothing(settles: Settles) -> None:
    setting = settles(partitions=1)
    worker = worker_on(setting, name="w")
    begins = Beginnings(setting)
    with flowing(setting, [worker], 1, EVENTS, 0) as flow:
        wait_until(
            lambda: flow.emitted.poll() < 0 or begins.first() > 0,
            "the first purge",
            lambda: worker.log,
            quiet_s=QUIET_S,
        )
        worker.kill_all()
        worker.begin()
    assert begins.first() > 0
    begins.close()
