"""End to end: a worker's results of windows and patterns, in every kind of store.

Events are out of order, so that windows and matches are updated and retracted, and one query
overflows its LIMIT. The worker is killed while events flow, and so is each sink. In the end each
store has the current results of its topic, which are those of a replay of the same log.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from benchmarks.workloads import crowd
from infra.postgres import PostgresServer
from infra.redis import RedisServer
from sinks.files import Form
from tests.end_to_end.records import Read, Sender
from tests.end_to_end.setting import Setting, Settles
from tests.end_to_end.worker import at_work
from tests.sinks.kinds import Place, places_of
from tests.sinks.results import same
from tests.sinks.sink_process import SinkProcess, served
from tests.sinks.told import (
    QUERIES,
    SPEED,
    STREAM,
    await_expected,
    beat,
    content,
    is_overflow,
    lines_of,
    overflows,
    replayed,
    standing,
    told,
    value_of,
)
from tests.sinks.topic import group_has_read
from tests.waiting import wait_until

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.redis,
    pytest.mark.postgres,
    pytest.mark.slow,
]

EVENTS = 5_000
SINKS_KILLED, WORKER_KILLED = 0.2, 0.5
"""Shares of the events that are sent before the kills."""

BATCH = 20
"""Number of records in a batch, small enough that mostly one is between its reading and its
commit."""

WRITTEN_BEFORE_KILL = 2 * BATCH
"""Number of records after which the first batch was committed."""

TIMEOUT_S = 60.0


class Sinking(SinkProcess):
    """A sink of one topic, and the place that it fills."""

    def __init__(
        self, kind: str, brokers: str, topic: str, folder: Path, place: Place, *options: str
    ) -> None:
        self.place = place
        self.group = f"{topic}.{kind}"
        self.begin: dict[int, int] = {}
        """Offsets at which it went on after the kill, by partition."""

        self.topic = topic
        self._brokers = brokers
        super().__init__(
            self.group,
            folder,
            *(kind, "--brokers", brokers, "--topic", topic, "--group", self.group),
            *("--batch", str(BATCH), *options),
        )

    def kill_in_mid_flow(self, partitions: int) -> None:
        self.wait_until_written(WRITTEN_BEFORE_KILL)
        assert self.process.kill() == -9
        consumer = Consumer({"bootstrap.servers": self._brokers, "group.id": self.group})
        places = [TopicPartition(self.topic, number) for number in range(partitions)]
        found = consumer.committed(places, TIMEOUT_S)
        consumer.close()
        self.begin = {place.partition: max(0, place.offset) for place in found}
        self.start()

    def await_all(self, records: Sequence[Read]) -> None:
        """Wait until the sink has read these records, and assert that it has counted those after
        the kill by kind.
        """
        ends = {record.partition: record.offset + 1 for record in records}
        wait_until(
            lambda: group_has_read(self._brokers, self.topic, self.group, ends),
            f"{self.group} to have read all",
        )
        rest = [each for each in records if each.offset >= self.begin[each.partition]]
        assert 0 < len(rest) < len(records), "was killed before its first word, or after its last"
        counted = self.metrics()
        assert counted["records"] == len(rest)
        assert counted["control"] == sum(record.is_control for record in rest)
        assert self.dead_letters == []

    def exit_code(self) -> int | None:
        """Wait until the sink ends, and return the exit code."""
        wait_until(lambda: not self.process.is_alive(), f"the end of {self.group}")
        return self.process.kill()


def sinks_on(
    setting: Setting, folder: Path, redis: RedisServer, postgres: PostgresServer
) -> list[Sinking]:
    """Return a sink of every kind, on windows and on matches."""
    made = []
    for topic in setting.topology.result_topics.values():
        form = Form.PARQUET if topic == setting.topology.topics.windows else Form.JSON_LINES
        made += [
            Sinking(kind, setting.bootstrap, topic, folder / "logs", place, *options)
            for kind, (place, options) in places_of(
                redis, postgres, topic, folder / topic, form
            ).items()
        ]
    return made


def test_stores_match_the_replay(
    settles: Settles,
    redis_server: RedisServer,
    postgres_server: PostgresServer,
    tmp_path: Path,
) -> None:
    stages = "reorder+merge, window+pattern"
    setting = settles(stages=stages, stream=STREAM, more=QUERIES)
    partitions = setting.topology.topics.partitions
    rows = crowd(EVENTS, seed=5).rows
    sinks = sinks_on(setting, tmp_path, redis_server, postgres_server)
    with at_work(setting, name="worker") as worker:
        sender = Sender(setting, rows, speed=SPEED, value=value_of).start()
        with served(sinks):
            sender.await_share(SINKS_KILLED)
            for sink in sinks:
                sink.kill_in_mid_flow(partitions)
            sender.await_share(WORKER_KILLED)
            worker.kill_all()
            worker.start()
            sender.finish()
            beat(setting, rows)
            expected = replayed(setting, tmp_path / "raw.jsonl")
            await_expected(setting, content(expected))
            assert worker.stop() == 0, worker.log
            records = told(setting)
            for sink in sinks:
                sink.await_all(records[sink.topic])
                sink.process.terminate()
            for sink in sinks:
                assert sink.exit_code() == 0, sink.log
    lines = {topic: lines_of(found) for topic, found in records.items()}
    for topic, found in lines.items():
        ops = Counter(line["op"] for line in found if not is_overflow(line))
        print(f"{topic}: {dict(ops)}, {len(overflows(found))} overflows")
        assert ops.keys() == {"emit", "update", "retract"}
    for sink in sinks:
        assert same(sink.place.current()) == standing(lines[sink.topic]), sink.group
    assert overflows(chain(*lines.values())) == overflows(expected) != set()
