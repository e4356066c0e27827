"""Change an application's topics and groups, as an administrator would."""

from __future__ import annotations

import uuid
from collections.abc import Callable

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
)

from agents.kafka.declared import list_needed_topics
from agents.kafka.topics import ensure_topics
from tests.end_to_end.setting import Setting
from tests.services import SharedKafka
from tests.waiting import wait_until

TIMEOUT_S = 40.0


def admin_of(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap})


def delete_topics(bootstrap: str, *topics: str) -> None:
    """Delete the topics, and wait until they are gone."""
    admin = admin_of(bootstrap)
    for answer in admin.delete_topics([*topics]).values():
        answer.result(TIMEOUT_S)
    wait_until(
        lambda: not {*topics} & {*admin.list_topics(timeout=TIMEOUT_S).topics},
        f"the end of {topics}",
    )


def grow(bootstrap: str, topic: str, count: int) -> None:
    """Give the topic `count` partitions."""
    admin = admin_of(bootstrap)
    admin.create_partitions([NewPartitions(topic, count)])[topic].result(TIMEOUT_S)
    wait_until(
        lambda: len(admin.list_topics(topic, timeout=TIMEOUT_S).topics[topic].partitions) == count,
        f"{count} partitions of {topic}",
    )


def configure(bootstrap: str, topic: str, name: str, value: str) -> None:
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
    admin = admin_of(bootstrap)
    admin.incremental_alter_configs([resource])[resource].result(TIMEOUT_S)


def create_led(setting: Setting, leader_of: Callable[[str, int], int]) -> None:
    """Make the topics, with one replica of each partition, on the broker that `leader_of` names."""
    admin = admin_of(setting.bootstrap)
    topics = [
        NewTopic(
            spec.name,
            spec.partitions,
            replica_assignment=[[leader_of(spec.name, n)] for n in range(spec.partitions)],
            config=spec.config,
        )
        for spec in list_needed_topics(setting.topology)
    ]
    for made in admin.create_topics(topics).values():
        made.result(TIMEOUT_S)
    ensure_topics(list_needed_topics(setting.topology), setting.bootstrap, 1)


def largest(setting: Setting, size: int) -> None:
    """Limit a batch of the ordered topic to `size` bytes."""
    configure(setting.bootstrap, setting.ordered, "max.message.bytes", str(size))


def offsets_of(bootstrap: str, topic: str) -> tuple[int, int]:
    """Return the first and the end offset of partition 0."""
    return offsets_of_all(bootstrap, topic)[0]


def offsets_of_all(bootstrap: str, topic: str) -> dict[int, tuple[int, int]]:
    """Return the first and the end offset of each partition."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "looks"})
    try:
        partitions = consumer.list_topics(topic, TIMEOUT_S).topics[topic].partitions
        return {
            number: consumer.get_watermark_offsets(TopicPartition(topic, number), TIMEOUT_S)
            for number in partitions
        }
    finally:
        consumer.close()


def changelogs(setting: Setting) -> list[str]:
    """Return the application's existing changelogs."""
    topics = admin_of(setting.bootstrap).list_topics(timeout=TIMEOUT_S).topics
    begin = f"{setting.topology.application}."
    found = [name for name in topics if name.startswith(begin) and name.endswith(".changelog")]
    assert found
    return found


def forget_groups(setting: Setting) -> None:
    """Delete the groups, as brokers do by themselves after `offsets.retention.minutes`."""
    admin = admin_of(setting.bootstrap)
    for stage in setting.stages:
        group = f"{setting.topology.application}.{stage}"
        wait_until(lambda group=group: _is_deleted(admin, group), f"the end of {group}")  # type: ignore[misc]


def _is_deleted(admin: AdminClient, group: str) -> bool:
    try:
        admin.delete_consumer_groups([group])[group].result(TIMEOUT_S)
    except KafkaException as failed:
        if failed.args[0].code() == KafkaError.NON_EMPTY_GROUP:
            return False
        if failed.args[0].code() != KafkaError.GROUP_ID_NOT_FOUND:
            raise
    return True


LARGEST = 20_000_000
"""Largest batch of an input, in bytes."""


def large_input(kafka: SharedKafka) -> str:
    """Create an input whose brokers accept more than the contract, and return its name.

    A broker would otherwise refuse a record that exceeds the contract.
    """
    raw = f"raw-{uuid.uuid4().hex[:8]}"
    arrival = {"message.timestamp.type": "LogAppendTime", "max.message.bytes": str(LARGEST)}
    kafka.create_topic(raw, 1, arrival)
    return raw
