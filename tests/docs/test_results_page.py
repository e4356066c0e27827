"""Examples: the recipes of docs/guides/results.md, as written there, find the current results."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import psycopg
import pytest
import redis
from confluent_kafka import Consumer, KafkaError, Message

from infra.postgres import PostgresServer
from infra.redis import RedisServer
from tests.services import SharedKafka, UniqueName
from tests.sinks.sink_process import SinkProcess, served
from tests.sinks.table import PAGE, Rows, publish, recipe
from tests.sinks.topic import ResultsProducer, group_has_read

pytestmark = pytest.mark.kafka

PARTITIONS = 3
MOST_LINES = 6


class Enough(Exception):
    """A signal that ends the loop of a recipe."""


class ReadToItsEnd:
    """A consumer that stops once each partition has reached its end."""

    def __init__(self, servers: str, topic: str) -> None:
        settings = {"bootstrap.servers": servers, "group.id": topic, "enable.partition.eof": True}
        self._consumer = Consumer({**settings, "auto.offset.reset": "earliest"})
        self._consumer.subscribe([topic])
        self._ends: set[int | None] = set()

    def consume(self, count: int, timeout: float) -> list[Message]:
        if len(self._ends) == PARTITIONS:
            self._consumer.close()
            raise Enough
        found = self._consumer.consume(count, timeout)
        self._ends |= {each.partition() for each in found if _is_end(each.error())}
        return found


def _is_end(error: KafkaError | None) -> bool:
    return error is not None and error.code() == KafkaError._PARTITION_EOF


@pytest.fixture
def topic(kafka: SharedKafka, unique_name: UniqueName) -> str:
    name = unique_name("speeds").replace("-", "_")
    kafka.create_topic(name, PARTITIONS)
    return name


def test_recipes_are_short() -> None:
    recipes = re.findall(
        r"^```\w+\n(.*?)^```",
        PAGE.partition("\n## Use a recipe\n")[2].partition("\n## ")[0],
        re.M | re.S,
    )
    assert len(recipes) == 6
    assert max(len([*filter(None, each.splitlines())]) for each in recipes) <= MOST_LINES


def test_dictionary_has_current_results(kafka: SharedKafka, topic: str) -> None:
    with ResultsProducer(kafka.bootstrap, topic) as producer:
        rows = publish(producer)
    table: dict[bytes, Any] = {}
    names = {"consumer": ReadToItsEnd(kafka.bootstrap, topic), "table": table, "json": json}
    with pytest.raises(Enough):
        exec(recipe("A dictionary"), names)
    assert {key.decode(): row for key, row in table.items()} == rows


def sunk(folder: Path, servers: str, topic: str, command: str) -> Rows:
    """Run the sink until it has read each record, and return the current results."""
    words = shlex.split(command)
    assert words[:2] == ["inorder", "sink"]
    sink = SinkProcess("sink", folder, *words[2:], "--group", topic)
    with ResultsProducer(servers, topic) as producer, served([sink]):
        rows = publish(producer)
        sink.process.wait_until(
            lambda: group_has_read(servers, topic, topic, producer.next_offsets), 60.0
        )
        assert sink.process.stop() == 0
    assert sink.dead_letters == []
    return rows


@pytest.mark.postgres
@pytest.mark.slow
def test_postgres_has_current_results(
    kafka: SharedKafka, topic: str, postgres_server: PostgresServer, tmp_path: Path
) -> None:
    places = {"kafka:9092": kafka.bootstrap, "postgresql://app@db/plant": postgres_server.url}
    places |= {"results.speeds": topic, "table speeds": f"table {topic}"}
    places |= {"from speeds": f"from {topic}"}
    sink, query = recipe("PostgreSQL", places).splitlines()
    rows = sunk(tmp_path, kafka.bootstrap, topic, sink)
    with psycopg.connect(postgres_server.url) as connection:
        said = [values for (values,) in connection.execute(shlex.split(query)[-1])]
    assert in_order(said) == in_order(row["values"] for row in rows.values())


@pytest.mark.redis
@pytest.mark.slow
def test_redis_has_current_results(
    kafka: SharedKafka, topic: str, redis_server: RedisServer, tmp_path: Path
) -> None:
    places = {"kafka:9092": kafka.bootstrap, "redis://cache:6379/0": redis_server.url}
    sink, query = recipe("Redis", {**places, "results.speeds": topic}).splitlines()
    rows = sunk(tmp_path, kafka.bootstrap, topic, sink)
    with redis.Redis.from_url(redis_server.url) as client:
        said = client.execute_command(*shlex.split(query)[3:])
    assert in_order(map(json.loads, said)) == in_order(rows.values())


def in_order(rows: Any) -> list[str]:
    return sorted(json.dumps(row, sort_keys=True) for row in rows)
