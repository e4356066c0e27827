"""Makes the topics that a topology needs (`agents.kafka.declared`), and grows changelogs.

`create` is idempotent: topics that exist are left as they are, and what differs from the
declaration is reported. When it returns, every topic has its leaders.

A changelog has a partition for each of its input's, so a stage whose input has grown cannot read
the new ones until its changelog has grown too. Nothing else is grown: a stream lies in the
partition of a derived topic that its name and the number of partitions say, so more of them would
part it from its state.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Final

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ConfigResource,
    NewPartitions,
    NewTopic,
)

from agents.kafka.brokers import admin_client
from agents.kafka.declared import TopicSpec
from agents.kafka.security import PLAINTEXT, Security
from agents.kafka.stage_topics import changelogs_of
from topology.config import Topology

TIMEOUT_S: Final = 30.0
POLL_S: Final = 0.05
BROKERS_DEFAULT: Final = -1
"""In place of a number of copies."""


class TopicsUnavailable(Exception):
    """The brokers did not do as asked; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What `create` did to a topic: `differences` are reported, not mended. `copies`: on as many of
    the `brokers` it lies."""

    name: str
    created: bool
    differences: tuple[str, ...] = ()
    copies: int = 0
    brokers: int = 0


def create(
    specs: Sequence[TopicSpec],
    bootstrap_servers: str,
    replication: int | None,
    security: Security = PLAINTEXT,
) -> list[Outcome]:
    """Make those that are not there. `replication` None: as many copies as the brokers' own
    setting says. TopicsUnavailable names the first that failed."""
    admin = admin_client(bootstrap_servers, security)
    copies = BROKERS_DEFAULT if replication is None else replication
    new = [NewTopic(spec.name, spec.partitions, copies, config=spec.config) for spec in specs]
    futures = admin.create_topics(new, request_timeout=TIMEOUT_S)
    created = {spec.name: _is_new(futures[spec.name], spec, bootstrap_servers) for spec in specs}
    await_leaders(admin, created)
    known = admin.list_topics(timeout=TIMEOUT_S)
    return [
        Outcome(
            spec.name,
            created[spec.name],
            () if created[spec.name] else _differences(admin, spec),
            min(len(part.replicas) for part in known.topics[spec.name].partitions.values()),
            len(known.brokers),
        )
        for spec in specs
    ]


def _is_new(future: Future[None], spec: TopicSpec, bootstrap_servers: str) -> bool:
    try:
        future.result()
    except KafkaException as refused:
        error: KafkaError = refused.args[0]
        if error.code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise TopicsUnavailable(_refusal(spec, error, bootstrap_servers)) from refused
        return False
    return True


def await_leaders(admin: AdminClient, names: Collection[str]) -> None:
    """Wait for a topic just made: it exists before the brokers can describe it."""
    deadline_s = time.monotonic() + TIMEOUT_S
    while absent := _without_leader(admin, names):
        if time.monotonic() > deadline_s:
            raise TopicsUnavailable(
                f"{', '.join(absent)}: no leader within {TIMEOUT_S:.0f} s; are all brokers up?"
            )
        time.sleep(POLL_S)


def _without_leader(admin: AdminClient, names: Collection[str]) -> list[str]:
    known = admin.list_topics(timeout=TIMEOUT_S).topics
    return [
        name
        for name in names
        if name not in known
        or not known[name].partitions
        or any(partition.leader < 0 for partition in known[name].partitions.values())
    ]


def _refusal(spec: TopicSpec, error: KafkaError, bootstrap_servers: str) -> str:
    if error.code() == KafkaError.INVALID_REPLICATION_FACTOR:
        return (
            f"{spec.name}: there are fewer brokers than topics.replication, or the brokers' own"
            " default.replication.factor, asks for; write `topics: {replication: N}` with N at most"
            " the number of brokers"
        )
    if error.code() in (KafkaError._TIMED_OUT, KafkaError._TRANSPORT):
        return f"no broker answered at {bootstrap_servers}; check --brokers"
    return f"{spec.name}: {error.str()}"


def _differences(admin: AdminClient, spec: TopicSpec) -> tuple[str, ...]:
    """What an existing topic has otherwise than declared."""
    found = []
    partitions = admin.list_topics(spec.name, timeout=TIMEOUT_S).topics[spec.name].partitions
    if len(partitions) != spec.partitions:
        found.append(f"{len(partitions)} partitions, declared {spec.partitions}")
    resource = ConfigResource(ConfigResource.Type.TOPIC, spec.name)
    config = admin.describe_configs([resource])[resource].result(timeout=TIMEOUT_S)
    for key, wanted in spec.config.items():
        entry = config.get(key)
        if entry is not None and entry.value != wanted:
            found.append(f"{key}={entry.value}, declared {wanted}")
    return tuple(found)


# -- changelogs -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Grown:
    """A changelog that has `partitions` now, or that has to have so many."""

    name: str
    partitions: int


def narrow_changelogs(
    topology: Topology, bootstrap_servers: str, security: Security = PLAINTEXT
) -> list[Grown]:
    """The changelogs that have fewer partitions than their inputs, and how many these have.
    TopicsUnavailable if no broker answers."""
    try:
        known = admin_client(bootstrap_servers, security).list_topics(timeout=TIMEOUT_S).topics
    except KafkaException as failed:
        raise TopicsUnavailable(
            f"no broker answered at {bootstrap_servers}; check --brokers"
        ) from failed
    counts = {name: len(topic.partitions) for name, topic in known.items()}
    return [
        Grown(changelog, counts[topic])
        for changelog, (_, topic) in changelogs_of(topology).items()
        if counts.get(changelog, 0) < counts.get(topic, 0)
    ]


def grow_changelogs(
    topology: Topology, bootstrap_servers: str, security: Security = PLAINTEXT
) -> list[Grown]:
    """Make every changelog as wide as its input; those that were not. Idempotent.
    TopicsUnavailable names the first that failed."""
    grown = narrow_changelogs(topology, bootstrap_servers, security)
    if not grown:
        return []
    admin = admin_client(bootstrap_servers, security)
    asked = admin.create_partitions([NewPartitions(each.name, each.partitions) for each in grown])
    for name, answer in asked.items():
        try:
            answer.result(TIMEOUT_S)
        except KafkaException as refused:
            text = refused.args[0].str()
            raise TopicsUnavailable(f"{name} was not grown: {text}") from refused
    await_leaders(admin, [each.name for each in grown])
    return grown
