"""End to end: the Kafka inside the process, and the limits its docstring names."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from agents.kafka.brokers import brokers_at
from agents.kafka.declared import declared
from cli.local.embedded import PARTITIONS, EmbeddedBroker
from cli.run import dev, worker
from tests.services import UniqueName
from topology.config import parse

READ_TIMEOUT_S = 20.0


def test_a_made_topic_has_the_stated_partitions(
    embedded_broker: EmbeddedBroker, unique_name: UniqueName
) -> None:
    topic = unique_name("raw")
    embedded_broker.make_topic(topic)
    metadata = Producer({"bootstrap.servers": embedded_broker.bootstrap}).list_topics(topic, 5)
    assert len(metadata.topics[topic].partitions) == PARTITIONS


def test_a_committed_transaction_reaches_a_group(
    embedded_broker: EmbeddedBroker, unique_name: UniqueName
) -> None:
    topic = unique_name("ordered")
    embedded_broker.make_topic(topic)
    server = {"bootstrap.servers": embedded_broker.bootstrap}
    producer = Producer({**server, "transactional.id": topic})
    producer.init_transactions(READ_TIMEOUT_S)
    producer.begin_transaction()
    producer.produce(topic, b"value", key=b"key", headers=[("sourceId", b"s1")])
    producer.commit_transaction(READ_TIMEOUT_S)

    consumer = Consumer({**server, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    deadline_s = time.monotonic() + READ_TIMEOUT_S
    record = None
    while record is None and time.monotonic() < deadline_s:
        record = consumer.poll(0.5)
    consumer.close()
    assert record is not None
    assert record.error() is None
    assert (record.key(), record.value()) == (b"key", b"value")
    assert record.headers() == [("sourceId", b"s1")]


def test_a_closed_one_says_so() -> None:
    broker = EmbeddedBroker()
    broker.close()
    with pytest.raises(RuntimeError, match="has been closed"):
        broker.make_topic("raw")


@pytest.mark.parametrize("partitions", [1, 9])
def test_dev_and_a_worker_have_topics_as_the_file_says(tmp_path: Path, partitions: int) -> None:
    topology = parse(f"streams: {{default: {{}}}}\ntopics: {{partitions: {partitions}}}\n")
    for brokers in (
        dev._broker("embedded", tmp_path, topology),
        worker._brokers("embedded", topology),
    ):
        with brokers as servers:
            found = brokers_at(servers).partitions([spec.name for spec in declared(topology)])
            assert set(found.values()) == {partitions}


def test_a_topic_that_is_there_stays_as_it_is() -> None:
    with EmbeddedBroker() as broker:
        broker.make_topic("raw", 2)
        broker.make_topic("raw", 3)
        assert brokers_at(broker.bootstrap).partitions(["raw"]) == {"raw": 2}
