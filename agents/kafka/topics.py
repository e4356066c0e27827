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
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from typing import Final, NamedTuple

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    NewPartitions,
    NewTopic,
)

from agents.kafka.brokers import BrokersUnavailable, admin_client
from agents.kafka.compacted import asked_configs, config_of
from agents.kafka.declared import TopicSpec
from agents.kafka.security import PLAINTEXT, Security
from agents.kafka.stage_topics import changelogs_of
from topology.config import Topology

TIMEOUT_S: Final = 30.0
POLL_S: Final = 0.05
BROKERS_DEFAULT: Final = -1
"""In place of a number of copies."""


class Outcome(NamedTuple):
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
    setting says. BrokersUnavailable names the first that failed."""
    admin = admin_client(bootstrap_servers, security)
    copies = BROKERS_DEFAULT if replication is None else replication
    new = [NewTopic(spec.name, spec.partitions, copies, config=spec.config) for spec in specs]
    futures = admin.create_topics(new, request_timeout=TIMEOUT_S)
    created = {spec.name: _is_new(futures[spec.name], spec, bootstrap_servers) for spec in specs}
    await_leaders(admin, created)
    known = admin.list_topics(timeout=TIMEOUT_S)
    old = [name for name, is_new in created.items() if not is_new]
    configs = {name: config_of(answer) for name, answer in asked_configs(admin, old).items()}
    outcomes = []
    for spec in specs:
        found = known.topics[spec.name].partitions
        config = configs.get(spec.name)
        differs = () if config is None else _differences(spec, len(found), config)
        least = min(len(partition.replicas) for partition in found.values())
        is_new = created[spec.name]
        outcomes.append(Outcome(spec.name, is_new, tuple(differs), least, len(known.brokers)))
    return outcomes


def _is_new(future: Future[None], spec: TopicSpec, bootstrap_servers: str) -> bool:
    try:
        future.result()
    except KafkaException as refused:
        error: KafkaError = refused.args[0]
        if error.code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise BrokersUnavailable(_refusal(spec, error, bootstrap_servers)) from refused
        return False
    return True


def await_leaders(admin: AdminClient, names: Collection[str]) -> None:
    """Wait for a topic just made: it exists before the brokers can describe it."""
    deadline_s = time.monotonic() + TIMEOUT_S
    while absent := _without_leader(admin, names):
        if time.monotonic() > deadline_s:
            raise BrokersUnavailable(
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


def _differences(spec: TopicSpec, partitions: int, config: Mapping[str, str]) -> Iterator[str]:
    """Yield what an existing topic has otherwise than declared."""
    if partitions != spec.partitions:
        yield f"{partitions} partitions, declared {spec.partitions}"
    for key, wanted in spec.config.items():
        if config.get(key, wanted) != wanted:
            yield f"{key}={config[key]}, declared {wanted}"


# -- changelogs -----------------------------------------------------------------------------------


def narrow_changelogs(topology: Topology, known: Mapping[str, int]) -> dict[str, int]:
    """Return the changelogs that have fewer partitions than their inputs, with how many these have.
    `known`: the partitions of every topic."""
    return {
        changelog: known[topic]
        for changelog, (_, topic) in changelogs_of(topology).items()
        if known.get(changelog, 0) < known.get(topic, 0)
    }


def grow_changelogs(
    narrow: dict[str, int], bootstrap_servers: str, security: Security = PLAINTEXT
) -> dict[str, int]:
    """Give each of these changelogs so many partitions, and return them. BrokersUnavailable names
    the first that failed."""
    if not narrow:
        return narrow
    admin = admin_client(bootstrap_servers, security)
    asked = admin.create_partitions([NewPartitions(*each) for each in narrow.items()])
    for name, answer in asked.items():
        try:
            answer.result(TIMEOUT_S)
        except KafkaException as refused:
            text = refused.args[0].str()
            raise BrokersUnavailable(f"{name} was not grown: {text}") from refused
    await_leaders(admin, narrow)
    return narrow
