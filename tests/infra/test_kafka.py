"""End to end: the harness's own real broker does what other tests rely on."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from confluent_kafka import (
    TIMESTAMP_LOG_APPEND_TIME,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

import infra.kafka
from cli.local.kafka import KafkaBroker, jars, settings
from cli.local.kafka.client import answers
from cli.local.poll import wait_until
from cli.local.process import NotReady
from infra.kafka import ContainerBroker
from tests.services import SharedKafka, UniqueName, require

READ_TIMEOUT_S = 30.0


def send(bootstrap: str, topic: str, values: list[bytes]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    failures: list[KafkaError] = []
    for value in values:
        producer.produce(
            topic,
            value,
            headers=[("seqNum", value)],
            on_delivery=lambda error, _: failures.append(error) if error else None,
        )
    assert producer.flush(READ_TIMEOUT_S) == 0
    assert failures == []


def read(bootstrap: str, topic: str, count: int) -> list[Message]:
    """The first `count` committed records of partition 0, or fewer after the time-out."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"read-{topic}",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    records: list[Message] = []
    deadline_s = time.monotonic() + READ_TIMEOUT_S
    while len(records) < count and time.monotonic() < deadline_s:
        batch = consumer.consume(count - len(records), 0.5)
        records += [record for record in batch if record.error() is None]
    consumer.close()
    return records


def values_of(records: list[Message]) -> list[bytes | str | None]:
    return [record.value() for record in records]


@pytest.mark.kafka
def test_a_record_comes_back_with_headers_and_append_time(
    kafka: SharedKafka, unique_name: UniqueName
) -> None:
    topic = unique_name("append-time")
    kafka.create_topic(topic, config={"message.timestamp.type": "LogAppendTime"})
    send(kafka.bootstrap, topic, [b"1", b"2"])
    records = read(kafka.bootstrap, topic, 2)
    assert values_of(records) == [b"1", b"2"]
    assert records[0].headers() == [("seqNum", b"1")]
    assert [record.timestamp()[0] for record in records] == [TIMESTAMP_LOG_APPEND_TIME] * 2


@pytest.mark.kafka
def test_only_committed_transactions_are_read(kafka: SharedKafka, unique_name: UniqueName) -> None:
    topic = unique_name("transactions")
    kafka.create_topic(topic)
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": topic})
    producer.init_transactions(READ_TIMEOUT_S)
    for value, commit in ((b"aborted", False), (b"committed", True)):
        producer.begin_transaction()
        producer.produce(topic, value)
        if commit:
            producer.commit_transaction(READ_TIMEOUT_S)
        else:
            producer.flush(READ_TIMEOUT_S)
            producer.abort_transaction(READ_TIMEOUT_S)
    assert values_of(read(kafka.bootstrap, topic, 1)) == [b"committed"]


@pytest.mark.kafka
def test_a_new_owner_of_a_transactional_id_fences_the_old_one(
    kafka: SharedKafka, unique_name: UniqueName
) -> None:
    topic = unique_name("fence")
    kafka.create_topic(topic)
    config = {"bootstrap.servers": kafka.bootstrap, "transactional.id": topic}
    old, new = Producer(config), Producer(config)
    old.init_transactions(READ_TIMEOUT_S)
    old.begin_transaction()
    old.produce(topic, b"from the zombie")
    old.flush(READ_TIMEOUT_S)
    new.init_transactions(READ_TIMEOUT_S)
    with pytest.raises(KafkaException) as raised:
        old.commit_transaction(READ_TIMEOUT_S)
    assert raised.value.args[0].code() in {KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH}


@pytest.mark.kafka
def test_a_topic_is_not_made_by_accident(kafka: SharedKafka, unique_name: UniqueName) -> None:
    with pytest.raises(KafkaException) as raised:
        create_by_accident(kafka.bootstrap, unique_name("never-made"))
    assert raised.value.args[0].code() in {
        KafkaError._UNKNOWN_TOPIC,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
    }


def create_by_accident(bootstrap: str, topic: str) -> None:
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "allow.auto.create.topics": True,
            "topic.metadata.propagation.max.ms": 500,
            "message.timeout.ms": 5000,
        }
    )
    failures: list[KafkaError | None] = []
    producer.produce(topic, b"", on_delivery=lambda error, _: failures.append(error))
    producer.flush(READ_TIMEOUT_S)
    if failures[0] is not None:
        raise KafkaException(failures[0])


@pytest.mark.kafka
@pytest.mark.slow
def test_kill_and_restart_keep_data_and_address(
    own_kafka: KafkaBroker | ContainerBroker,
) -> None:
    bootstrap = own_kafka.bootstrap
    own_kafka.create_topic("kept")
    send(bootstrap, "kept", [b"before"])
    own_kafka.kill()
    assert not answers(bootstrap, 1)
    own_kafka.restart()
    assert own_kafka.bootstrap == bootstrap
    send(bootstrap, "kept", [b"after"])
    assert values_of(read(bootstrap, "kept", 2)) == [b"before", b"after"]

    own_kafka.pause()
    assert not answers(bootstrap, 1)
    own_kafka.resume()
    wait_until(lambda: answers(bootstrap, 1), READ_TIMEOUT_S, "the broker to wake")


@pytest.mark.kafka
@pytest.mark.chaos
def test_three_nodes_go_on_without_one(tmp_path: Path) -> None:
    require(jars.missing())
    with KafkaBroker(tmp_path, nodes=3) as kafka:
        kafka.create_topic("copied", partitions=1)
        kafka.kill(2)
        send(kafka.bootstrap, "copied", [b"with two"])
        kafka.restart(2)
        assert values_of(read(kafka.bootstrap, "copied", 1)) == [b"with two"]


@pytest.mark.kafka
def test_a_broker_that_cannot_start_says_why(tmp_path: Path) -> None:
    require(jars.missing())
    broker = KafkaBroker(tmp_path, overrides={"num.io.threads": "none"})
    with pytest.raises(NotReady, match="Invalid value none for configuration num.io.threads"):
        broker.start()


@pytest.mark.parametrize("nodes", [0, 4])
def test_the_number_of_nodes_is_bounded(tmp_path: Path, nodes: int) -> None:
    with pytest.raises(ValueError, match=f"nodes={nodes}: a local cluster has 1 to 3 nodes"):
        KafkaBroker(tmp_path, nodes=nodes)


def test_without_java_and_docker_the_remedy_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    infra.kafka.container.missing.cache_clear()
    missing = infra.kafka.missing()
    infra.kafka.container.missing.cache_clear()
    assert missing is not None
    assert "install Java 17 and Maven" in missing
    assert "docker not found" in missing


def test_the_container_image_takes_the_same_settings() -> None:
    environment = settings.as_environment(settings.shared(1))
    assert environment["KAFKA_AUTO_CREATE_TOPICS_ENABLE"] == "false"
    assert len(environment) == len(settings.shared(1))
