"""Creates the topics that a topology needs (`agents.kafka.declared`), and grows changelogs.

`ensure_topics` is idempotent: it does not change existing topics, but reports differences from the
declaration. When it returns, every partition has its leader.

A changelog has a partition for each task of its input. So if each partition is a task, a stage
cannot read new partitions of its input until the changelog has grown too. No other topic gets more
partitions. A stream's name and the number of partitions determine its partition of a derived topic,
so more partitions would separate the stream from its state.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Final, NamedTuple

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ClusterMetadata,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
    TopicMetadata,
)

from agents.kafka.brokers import TIMEOUT_S, Brokers, BrokersUnavailable, admin_client
from agents.kafka.declared import TopicSpec
from agents.kafka.security import PLAINTEXT, Security
from agents.kafka.stage_topics import count_changelog_partitions
from topology.config import Topology

ANSWER_S: Final = 5.0
"""Time limit for reading the settings of topics."""

POLL_S: Final = 0.05
BROKERS_DEFAULT: Final = -1
"""Replication factor that makes the brokers use their own default."""


class Outcome(NamedTuple):
    """The result of `ensure_topics` for a topic.

    `differences` are reported, not repaired. `copies` is the smallest number of replicas of any of
    its partitions, and `brokers` the number of brokers.
    """

    name: str
    created: bool
    differences: tuple[str, ...] = ()
    copies: int = 0
    brokers: int = 0


def ensure_topics(
    specs: Sequence[TopicSpec],
    bootstrap_servers: str,
    replication: int | None,
    security: Security = PLAINTEXT,
) -> list[Outcome]:
    """Create the missing topics, and return one outcome for each topic.

    With `replication` None, the brokers choose the number of replicas. Raises BrokersUnavailable
    for the first topic that cannot be created.
    """
    admin = admin_client(bootstrap_servers, security)
    copies = BROKERS_DEFAULT if replication is None else replication
    brokers = len(admin.list_topics(timeout=TIMEOUT_S).brokers)
    specs = [
        spec._replace(partitions=max(spec.partitions, brokers)) if spec.per_broker else spec
        for spec in specs
    ]
    new = [NewTopic(spec.name, spec.partitions, copies, config=spec.config) for spec in specs]
    futures = admin.create_topics(new, request_timeout=TIMEOUT_S)
    created = {
        spec.name: _was_created(futures[spec.name], spec, bootstrap_servers) for spec in specs
    }
    known = await_leaders(admin, created)
    if _grow_per_broker(admin, specs, known):
        known = await_leaders(admin, created)
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


def _grow_per_broker(
    admin: AdminClient, specs: Sequence[TopicSpec], known: ClusterMetadata
) -> bool:
    """Give topics a partition for each broker that joined later; their records have no keys.

    Returns whether there were such brokers.
    """
    narrow = {
        spec.name: spec.partitions
        for spec in specs
        if spec.per_broker and len(known.topics[spec.name].partitions) < spec.partitions
    }
    _grow(admin, narrow)
    return bool(narrow)


def _was_created(future: Future[None], spec: TopicSpec, bootstrap_servers: str) -> bool:
    try:
        future.result()
    except KafkaException as refused:
        error: KafkaError = refused.args[0]
        if error.code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise BrokersUnavailable(_describe_refusal(spec, error, bootstrap_servers)) from refused
        return False
    return True


def await_leaders(admin: AdminClient, names: Collection[str]) -> ClusterMetadata:
    """Wait until a broker can describe new topics, and return what it knows.

    All of them have leaders then. Another broker may not know them yet.
    """
    deadline_s = time.monotonic() + TIMEOUT_S
    while True:
        found = admin.list_topics(timeout=TIMEOUT_S)
        absent = _find_leaderless(found.topics, names)
        if not absent:
            return found
        if time.monotonic() > deadline_s:
            raise BrokersUnavailable(
                f"{', '.join(absent)}: no leader within {TIMEOUT_S:.0f} s; are all brokers up?"
            )
        time.sleep(POLL_S)


def _find_leaderless(known: Mapping[str, TopicMetadata], names: Collection[str]) -> list[str]:
    return [
        name
        for name in names
        if name not in known
        or not known[name].partitions
        or any(partition.leader < 0 for partition in known[name].partitions.values())
    ]


def _describe_refusal(spec: TopicSpec, error: KafkaError, bootstrap_servers: str) -> str:
    if error.code() == KafkaError.INVALID_REPLICATION_FACTOR:
        return (
            f"{spec.name}: there are fewer brokers than topics.replication, or the brokers' own"
            " default.replication.factor, asks for; write `topics: {replication: N}` with N at most"
            f" the number of brokers, or start those that are down ({error.str()})"
        )
    if error.code() in (KafkaError._TIMED_OUT, KafkaError._TRANSPORT):
        return f"no broker answered at {bootstrap_servers}; check --brokers"
    return f"{spec.name}: {error.str()}"


def _differences(spec: TopicSpec, partitions: int, config: Mapping[str, str]) -> Iterator[str]:
    """Yield the differences between an existing topic and its declaration."""
    if partitions != spec.partitions:
        yield f"{partitions} partitions, declared {spec.partitions}"
    for key, declared in spec.config.items():
        if config.get(key, declared) != declared:
            yield f"{key}={config[key]}, declared {declared}"


# -- changelogs -----------------------------------------------------------------------------------


def narrow_changelogs(topology: Topology, known: Mapping[str, int]) -> dict[str, int]:
    """Return the changelogs with fewer partitions than their inputs, and the numbers they need.

    `known` has the number of partitions of every topic.
    """
    needed = count_changelog_partitions(topology, known)
    return {name: width for name, width in needed.items() if known.get(name, 0) < width}


def grow_changelogs(
    narrow: dict[str, int], bootstrap_servers: str, security: Security = PLAINTEXT
) -> dict[str, int]:
    """Grow each of these changelogs to its number of partitions, and return those numbers.

    Raises BrokersUnavailable for the first changelog that cannot be grown.
    """
    if not narrow:
        return narrow
    _grow(admin_client(bootstrap_servers, security), narrow)
    return narrow


def _grow(admin: AdminClient, narrow: Mapping[str, int]) -> None:
    """Grow each of these topics to its number of partitions; raise as `grow_changelogs` does."""
    if not narrow:
        return
    asked = admin.create_partitions([NewPartitions(*each) for each in narrow.items()])
    for name, answer in asked.items():
        try:
            answer.result(TIMEOUT_S)
        except KafkaException as refused:
            text = refused.args[0].str()
            raise BrokersUnavailable(f"{name} did not get more partitions: {text}") from refused
    await_leaders(admin, narrow)


# -- settings of topics ---------------------------------------------------------------------------


class CompactedInput(Exception):
    """An input topic is compacted; the message says which setting to change."""


def refuse_compacted(brokers: Brokers, inputs: Iterable[str]) -> None:
    """Raise CompactedInput for the first compacted input. Blocks.

    It accepts topics whose settings the principal may not see, and the embedded broker, which has
    none.
    """
    if brokers.is_embedded:
        return
    names = [*inputs]
    admin = admin_client(brokers.servers, brokers.security)
    answers = asked_configs(admin, names)
    for name in names:
        if (fault := find_compaction(name, config_of(answers[name]))) is not None:
            raise CompactedInput(f"{name} {'; '.join(fault)}")


def find_compaction(name: str, config: Mapping[str, str]) -> tuple[str, str] | None:
    """Return the fault of an input topic and the remedy, or None if the topic is not compacted."""
    if "compact" not in config.get("cleanup.policy", ""):
        return None
    what = (
        "is compacted: only the newest record of each key remains, so a restarted stage may not"
        " find the records that it had buffered"
    )
    where = f"--entity-type topics --entity-name {name}"
    return what, f"kafka-configs.sh --alter {where} --add-config cleanup.policy=delete"


def asked_configs(
    admin: AdminClient, names: Sequence[str], kind: ResourceType = ResourceType.TOPIC
) -> dict[str, Future[Any]]:
    """Request the settings of all these resources, and return the future answers by name."""
    if not names:
        return {}
    asked = [ConfigResource(kind, name) for name in names]
    answers = admin.describe_configs(asked, request_timeout=ANSWER_S)
    return {resource.name: answer for resource, answer in answers.items()}


def config_of(answer: Future[Any] | None) -> dict[str, str]:
    """Wait for an answer, and return its settings; an empty dict if there is no answer. Blocks."""
    try:
        found = {} if answer is None else answer.result(ANSWER_S)
    except (KafkaException, TimeoutError):
        return {}
    return {key: entry.value for key, entry in found.items() if entry.value is not None}
