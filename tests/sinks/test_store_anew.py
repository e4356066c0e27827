"""End to end: an emptied store is noticed, and gets all results again."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import redis

from infra.postgres import PostgresServer
from infra.redis import RedisServer
from sinks.files import Form
from tests.services import SharedKafka, UniqueName
from tests.sinks.kinds import places_of
from tests.sinks.results import result
from tests.sinks.sink_process import SinkProcess, served
from tests.sinks.topic import ResultsProducer, group_has_read
from tests.waiting import wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.redis, pytest.mark.postgres]

RESULTS = [result(f"r{number}", 0) for number in range(196)]


def flush(server: RedisServer) -> None:
    with redis.Redis.from_url(server.url) as client:
        client.flushall()


@pytest.mark.parametrize("kind", ["redis", "postgres", "files"])
def test_refill_restores_all_results(
    kind: str,
    kafka: SharedKafka,
    own_redis: RedisServer,
    postgres_server: PostgresServer,
    unique_name: UniqueName,
    tmp_path: Path,
) -> None:
    topic = unique_name("results")
    kafka.create_topic(topic, partitions=2)
    places = places_of(own_redis, postgres_server, topic, tmp_path / "out", Form.JSON_LINES)
    place, options = places[kind]
    empty: Callable[[], None] = partial(flush, own_redis) if kind == "redis" else place.empty
    source = (kind, "--brokers", kafka.bootstrap, "--topic", topic, "--group", topic)
    plain = SinkProcess("plain", tmp_path / "plain", *source, *options)
    refilling = SinkProcess("refilling", tmp_path / "refilling", *source, *options, "--refill")

    def is_refused() -> None:
        wait_until(lambda: not plain.process.is_alive(), "its end", lambda: plain.log)
        assert plain.process.stop() == 2, plain.log
        assert "lacks results" in plain.log
        assert "--refill" in plain.log

    def has_all() -> None:
        refilling.wait_until_written(len(RESULTS))
        assert refilling.process.stop() == 0, refilling.log
        assert {*place.current()} == {each.id for each in RESULTS}

    with ResultsProducer(kafka.bootstrap, topic) as producer, served([plain]):
        producer.results(RESULTS[:118])
        has_read = partial(group_has_read, kafka.bootstrap, topic, topic, producer.next_offsets)
        wait_until(has_read, "the first results to be read", lambda: plain.log)
        empty()
        producer.results(RESULTS[118:])
        is_refused()  # The store was emptied between two batches.
        plain.start()
        is_refused()  # The store is found empty at a start.
    with served([refilling]):
        has_all()
        empty()
        refilling.start()
        has_all()
    plain.start()
    try:
        plain.await_said("reading partitions")
        wait_until(lambda: plain.ask("ready")[0] == 200, "the sink to be ready", lambda: plain.log)
    finally:
        assert plain.process.stop() == 0, plain.log
