"""Changelogs grown to the partitions of their inputs, after somebody has added some there.

A changelog has a partition for each of its input's, so a stage whose input has grown cannot
read the new ones until its changelog has grown too. Nothing else is grown: a stream lies in
the partition of a derived topic that its name and the number of partitions say, so more of
them would part it from its state.

Proved by: tests/end_to_end/test_growth.py
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewPartitions  # type: ignore[attr-defined]

from agents.kafka.security import PLAINTEXT, Security
from agents.kafka.stage_topics import changelog_topic, inputs_of, works
from agents.kafka.topics import TIMEOUT_S, TopicsUnavailable, await_leaders
from topology.config import Topology


@dataclass(frozen=True, slots=True)
class Grown:
    """A changelog that has `partitions` now."""

    name: str
    partitions: int


def grow(topology: Topology, bootstrap_servers: str, security: Security = PLAINTEXT) -> list[Grown]:
    """Make every changelog as wide as its input; those that were not. Idempotent.
    TopicsUnavailable names the first that failed."""
    admin = AdminClient(
        {"bootstrap.servers": bootstrap_servers, "log_level": 0, **security.librdkafka()}
    )
    counts = _counts(admin, bootstrap_servers)
    wanted = {
        changelog: counts.get(topic, 0)
        for changelog, topic in _changelogs(topology).items()
        if counts.get(changelog, 0) < counts.get(topic, 0)
    }
    if not wanted:
        return []
    asked = admin.create_partitions([NewPartitions(*each) for each in wanted.items()])
    for name, answer in asked.items():
        try:
            answer.result(TIMEOUT_S)
        except KafkaException as refused:
            told = refused.args[0].str()
            raise TopicsUnavailable(f"{name} was not grown: {told}") from refused
    await_leaders(admin, wanted)
    return [Grown(name, partitions) for name, partitions in wanted.items()]


def _changelogs(topology: Topology) -> dict[str, str]:
    """Each changelog, and the input it belongs to."""
    return {
        changelog_topic(topology.application, stage.name, topic): topic
        for stage in topology.stages
        if works(topology, stage)
        for topic in inputs_of(topology, stage)
    }


def _counts(admin: AdminClient, bootstrap_servers: str) -> Mapping[str, int]:
    try:
        topics = admin.list_topics(timeout=TIMEOUT_S).topics
    except KafkaException as failed:
        raise TopicsUnavailable(
            f"no broker answered at {bootstrap_servers}; check --brokers"
        ) from failed
    return {name: len(topic.partitions) for name, topic in topics.items()}
