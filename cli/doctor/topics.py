"""Finds faults of the topics of a topology, with their remedies.

`describe_cluster` asks the brokers, and `findings` judges their answers without further requests.
The check changes nothing and needs only the right Describe. A missing right is a finding, too.

| check | reason |
|-------|--------|
| topics, their partitions and leaders | a stage does not start without them |
| timestamps, compaction, retention of derived topics | order and state need each of them |
| retention of inputs against `spill_after` | a stage that starts reads the newer events again |
| size limits of the stages' inputs | a stage that stopped for long loses unread records |
| the clock topic's compaction lag | a replay needs the samples of its own time |
| replicas, those in sync, unclean elections | a broker that fails can take data with it |
| segments of changelogs | a restore reads everything that is not compacted |
| rights to topics, groups, transactional ids | a stage does not start without them |
| a topic between stages that no stage reads | a file that was cut before leaves it |
| transactions that stay open | readers of committed records wait at them |
| the groups of stages | `cli.doctor.groups` |
| the brokers themselves | `cli.doctor.brokers` |
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import ResourceType  # type: ignore[attr-defined]

from agents.kafka import stage_topics
from agents.kafka.brokers import Brokers, admin_client
from agents.kafka.declared import TopicSpec, list_needed_topics
from agents.kafka.rights import DESCRIBE, WRITE, Kind, Right, list_rights
from agents.kafka.topics import asked_configs, config_of, find_compaction
from cli.doctor.brokers import TIMEOUT_S, SeenBrokers, broker_findings, newest_after_now_ms
from cli.doctor.finding import Finding, Weight, error, note, warning
from cli.doctor.groups import SeenGroup, group_findings, seen_group
from cli.doctor.open_transactions import Place, find_staying_open
from cli.doctor.transactional_ids import check_may_write
from topology.config import Topology

NS_PER_MS: Final = 1_000_000
SAFE_COPIES: Final = 3
SAFE_IN_SYNC: Final = 2
SPILLS_KEPT: Final = 10
"""The factor by which the retention of an input should exceed `spill_after`."""

COMPACTION_LAG: Final = "min.compaction.lag.ms"
SMALLER: Final[tuple[str, ...]] = ("segment.bytes", "segment.ms", "max.compaction.lag.ms")
"""Settings of changelogs that may be smaller than declared."""

NEEDED: Final = {
    "message.timestamp.type": "events are ordered by it",
    "cleanup.policy": "the state and the current results depend on it",
    "retention.ms": "a time may be years off, and the broker would delete the record at once",
    "message.timestamp.before.max.ms": "a time may be years off, and the transaction would fail",
    "message.timestamp.after.max.ms": "a time may be years off, and the transaction would fail",
    "max.message.bytes": "records with added headers would be too large, and the stage would stop",
}


@dataclass(frozen=True, slots=True)
class SeenTopic:
    """A topic as brokers report it; `may` has the principal's rights, None if not reported."""

    partitions: int
    copies: int = 1
    leaderless: tuple[int, ...] = ()
    config: Mapping[str, str] = field(default_factory=dict)
    may: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class Cluster:
    """The cluster as the brokers report it; rights that they do not report are None.

    Attributes:
        topics: Existing topics of the topology, by name.
        groups: Rights of the principal to each consumer group, by name.
        ids: Rights of the principal to the transactional ids, by their prefix.
    """

    brokers: SeenBrokers
    topics: Mapping[str, SeenTopic]
    groups: Mapping[str, frozenset[str] | None] = field(default_factory=dict)
    ids: Mapping[str, frozenset[str] | None] = field(default_factory=dict)
    open_at: Mapping[Place, int] = field(default_factory=dict)
    """The offset of the transaction that stays open, for each partition with one."""
    read_by: Mapping[str, SeenGroup] = field(default_factory=dict)
    """The consumer groups of the stages, by name."""
    leftover: str | None = None
    """The topic between reorder and merge, if it exists and no stage reads it."""


def describe_cluster(topology: Topology, there: Brokers) -> Cluster:
    """Return the brokers' report on the cluster; raise KafkaException if they do not answer.

    Embedded brokers do not answer requests for settings, so they get none. Blocks for at most
    `TIMEOUT_S` for each request; all settings are one request. If a transaction is open, its end is
    awaited for up to `transaction_timeout`.
    """
    admin = admin_client(there.servers, there.security)
    known = admin.list_topics(timeout=TIMEOUT_S)
    specs = list_needed_topics(topology)
    names = [spec.name for spec in specs if spec.name in known.topics]
    widths = {name: len(known.topics[name].partitions) for name in names}
    stamped = {*stage_topics.list_upstream_inputs(topology)} | {
        s.name for s in specs if s.per_broker
    }
    ahead_ms = newest_after_now_ms(admin, {name: widths[name] for name in stamped & {*names}})
    unread = topology.topics.sequenced if topology.fused else None
    leftover = unread if unread in known.topics else None
    if there.is_embedded:
        brokers = SeenBrokers(len(known.brokers), ahead_ms=ahead_ms, shows_settings=False)
        topics = {name: _describe(known.topics[name]) for name in names}
        return Cluster(brokers, topics, leftover=leftover)
    # All requests are sent before the first answer is awaited.
    asked_topics = (
        admin.describe_topics(
            TopicCollection(names), include_authorized_operations=True, request_timeout=TIMEOUT_S
        )
        if names
        else {}
    )
    configs = asked_configs(admin, names)
    asked = [str(min(known.brokers))] if known.brokers else []
    broker_configs = asked_configs(admin, asked, ResourceType.BROKER)
    groups = admin.describe_consumer_groups(
        [
            stage_topics.group_of(topology, stage)
            for stage in stage_topics.list_working_stages(topology)
        ],
        include_authorized_operations=True,
        request_timeout=TIMEOUT_S,
    )
    ids = _rights_to_ids(topology, there)
    described = {name: _await_answer(asked_topics.get(name)) for name in names}
    found = {
        name: _describe(
            known.topics[name], config_of(configs.get(name)), _rights_in(described[name])
        )
        for name in names
    }
    gives_ids = all(map(_has_id, described.values()))
    config = next((config_of(each) for each in broker_configs.values()), {})
    led = {name: widths[name] for name, seen in found.items() if not seen.leaderless}
    seen_groups = {name: seen_group(admin, name, each, TIMEOUT_S) for name, each in groups.items()}
    return Cluster(
        SeenBrokers(len(known.brokers), gives_ids, config, ahead_ms),
        found,
        {name: _rights_to_group(each) for name, each in groups.items()},
        ids,
        find_staying_open(admin, led, topology.transaction_timeout_ns / 1e9, TIMEOUT_S),
        {name: each for name, each in seen_groups.items() if each is not None},
        leftover,
    )


def _describe(
    topic: Any, config: Mapping[str, str] | None = None, may: frozenset[str] | None = None
) -> SeenTopic:
    partitions = topic.partitions.values()
    return SeenTopic(
        len(partitions),
        min((len(partition.replicas) for partition in partitions), default=0),
        tuple(partition.id for partition in partitions if partition.leader < 0),
        config or {},
        may,
    )


def _await_answer(asked: Any) -> Any:
    """Return the answer to a request; None if it does not arrive or the principal lacks the right.

    `findings` reports the missing answer.
    """
    try:
        return None if asked is None else asked.result(TIMEOUT_S)
    except (KafkaException, TimeoutError):
        return None


def _has_id(described: Any) -> bool:
    """Return whether the topic has an id; brokers before 2.8 report 0.

    A topic that is not described counts as one with an id.
    """
    if described is None:
        return True
    topic_id = described.topic_id
    return any((topic_id.get_most_significant_bits(), topic_id.get_least_significant_bits()))


def _rights_in(described: Any) -> frozenset[str] | None:
    operations = None if described is None else described.authorized_operations
    return None if operations is None else frozenset(each.name.title() for each in operations)


def _rights_to_group(asked: Any) -> frozenset[str] | None:
    try:
        return _rights_in(asked.result(TIMEOUT_S))
    except KafkaException as error:
        is_forbidden = error.args[0].code() == KafkaError.GROUP_AUTHORIZATION_FAILED
        return frozenset() if is_forbidden else None
    except TimeoutError:
        return None


def _rights_to_ids(topology: Topology, there: Brokers) -> dict[str, frozenset[str] | None]:
    """Return the rights to each prefix of the stages' transactional ids.

    The check uses the prefix itself as an id.
    """
    asked = (right for stage in topology.stages for right in list_rights(topology, stage))
    ids = [right.name for right in asked if right.kind == Kind.TRANSACTIONAL_ID]
    found = check_may_write(there.servers, there.security, ids, TIMEOUT_S)
    may = {True: frozenset({DESCRIBE, WRITE}), False: frozenset({DESCRIBE}), None: None}
    return {name: may[each] for name, each in found.items()}


def check_cluster(topology: Topology, cluster: Cluster) -> list[Finding]:
    """Return all findings, errors and warnings mixed, in the order of the checks."""
    return [
        *broker_findings(topology, cluster.brokers),
        *_check_topics(topology, cluster),
        *_check_widths(topology, cluster),
        *_check_rights(topology, cluster),
        *_check_transactions(topology, cluster),
        *group_findings(topology, cluster.read_by),
        *_check_leftover(cluster),
    ]


def _check_leftover(cluster: Cluster) -> Iterator[Finding]:
    if cluster.leftover is not None:
        what = "no stage of this file reads it: harmless, and you may delete it"
        yield note(cluster.leftover, f"{what} if no other application uses it")


def _check_topics(topology: Topology, cluster: Cluster) -> Iterator[Finding]:
    inputs = set(stage_topics.list_upstream_inputs(topology))
    working = stage_topics.list_working_stages(topology)
    read = {name for stage in working for name in stage_topics.inputs_of(topology, stage)}
    specs = list_needed_topics(topology)
    if absent := [spec.name for spec in specs if spec.name not in cluster.topics]:
        yield error(
            ", ".join(absent),
            "does not exist" if len(absent) == 1 else f"do not exist, {len(absent)} topics",
            "run inorder topics create, or let this principal Describe existing topics"
            if cluster.brokers.shows_settings
            else "run inorder dev with this file; its broker creates them",
        )
    for spec in specs:
        seen = cluster.topics.get(spec.name)
        if seen is None:
            continue
        if seen.leaderless:
            yield error(
                spec.name,
                f"has no leader for partitions {', '.join(map(str, seen.leaderless))}",
                "start the brokers that have these partitions",
            )
        if not seen.config:
            if cluster.brokers.shows_settings:
                yield warning(
                    spec.name,
                    "does not show its settings",
                    "allow DescribeConfigs, or run this as the cluster's administrator",
                )
            continue
        yield from _check_settings(spec, seen, is_input=spec.name in inputs)
        yield from _check_segments(spec, seen)
        yield from _check_replicas(spec.name, seen, cluster.brokers.count)
        if spec.name in inputs:
            yield from _check_retention(topology, spec.name, seen)
        if spec.name in read:
            yield from _check_retention_bytes(spec.name, seen)
        if spec.name == topology.topics.clock:
            yield from _check_compaction(spec, seen, [cluster.topics.get(name) for name in inputs])
        elif (
            spec.config.get("cleanup.policy") is None
            and (fault := find_compaction(spec.name, seen.config)) is not None
        ):
            yield error(spec.name, *fault)


def _check_segments(spec: TopicSpec, seen: SeenTopic) -> Iterator[Finding]:
    larger = {
        key: spec.config[key]
        for key in SMALLER
        if key in spec.config and int(seen.config.get(key, 0)) > int(spec.config[key])
    }
    if larger:
        which = ", ".join(f"{key} is {seen.config[key]}" for key in larger)
        yield warning(
            spec.name,
            f"{which}: its newest segment is not compacted, and a restore reads all of it",
            _alter_command(spec.name, larger),
        )


def _check_settings(spec: TopicSpec, seen: SeenTopic, *, is_input: bool) -> Iterator[Finding]:
    """Yield the settings that differ from the declared ones, except the record size of an input.

    Producers of an input may limit its records to any size.
    """
    for key, wanted in spec.config.items():
        value = seen.config.get(key, wanted)
        enough = key == "max.message.bytes" and (is_input or int(value) >= int(wanted))
        if value != wanted and not enough and key in NEEDED:
            yield error(
                spec.name,
                f"{key} is {value}, and {NEEDED[key]}",
                _alter_command(spec.name, {key: wanted}),
            )


def _check_replicas(name: str, seen: SeenTopic, brokers: int) -> Iterator[Finding]:
    if seen.copies < min(brokers, SAFE_COPIES):
        yield warning(
            name,
            f"has {seen.copies} copies on {brokers} brokers, and is lost if these fail",
            "kafka-reassign-partitions.sh adds copies; write `topics: {replication: 3}` for new"
            " topics",
        )
    elif 1 < seen.copies <= _min_in_sync_of(seen):
        yield warning(
            name,
            f"accepts nothing while one of its {seen.copies} copies is down: min.insync.replicas is"
            f" {_min_in_sync_of(seen)}, and each stop of a broker stops the stages",
            _alter_command(name, {"min.insync.replicas": str(seen.copies - 1)}),
        )
    elif seen.copies >= SAFE_COPIES and _min_in_sync_of(seen) < SAFE_IN_SYNC:
        yield warning(
            name,
            "accepts records that only one broker has, and loses them with that broker",
            _alter_command(name, {"min.insync.replicas": str(SAFE_IN_SYNC)}),
        )
    if seen.config.get("unclean.leader.election.enable") == "true":
        yield warning(
            name,
            "may elect a leader that lacks some of its records",
            _alter_command(name, {"unclean.leader.election.enable": "false"}),
        )


def _min_in_sync_of(seen: SeenTopic) -> int:
    return int(seen.config.get("min.insync.replicas", "1"))


def _check_retention(topology: Topology, name: str, seen: SeenTopic) -> Iterator[Finding]:
    kept_ms = int(seen.config.get("retention.ms", "-1"))
    spill_ms = topology.spill_after_ns // NS_PER_MS
    if 0 <= kept_ms < SPILLS_KEPT * spill_ms:
        yield Finding(
            Weight.ERROR if kept_ms <= spill_ms else Weight.WARNING,
            name,
            f"keeps records for {kept_ms} ms; a worker that starts reads again what was buffered"
            f" for less than spill_after ({spill_ms} ms), and what arrived while no worker ran",
            _alter_command(name, {"retention.ms": str(604_800_000)}),
        )


def _check_retention_bytes(name: str, seen: SeenTopic) -> Iterator[Finding]:
    if seen.config.get("retention.bytes", "-1") != "-1":
        yield warning(
            name,
            f"keeps {seen.config['retention.bytes']} bytes per partition, even if they are new;"
            " records that a stage has not read by then are lost",
            _alter_command(name, {"retention.bytes": "-1"}),
        )


def _check_compaction(
    spec: TopicSpec, seen: SeenTopic, inputs: Sequence[SeenTopic | None]
) -> Iterator[Finding]:
    """Yield a fault if a replay of the inputs would not find the clock samples of its time.

    If all inputs have a retention below the declared lag, the longest retention is enough.
    """
    kept_ms = [int(each.config.get("retention.ms", "-1")) for each in inputs if each is not None]
    declared_ms = int(spec.config[COMPACTION_LAG])
    wanted_ms = declared_ms
    if kept_ms and min(kept_ms) >= 0:
        wanted_ms = min(declared_ms, max(kept_ms))
    lag_ms = int(seen.config.get(COMPACTION_LAG, declared_ms))
    if lag_ms < wanted_ms:
        yield error(
            spec.name,
            f"{COMPACTION_LAG} is {lag_ms}, and a replay of what the inputs keep for {wanted_ms} ms"
            " would find only the last sample of each source",
            _alter_command(spec.name, {COMPACTION_LAG: str(declared_ms)}),
        )


def _check_widths(topology: Topology, cluster: Cluster) -> Iterator[Finding]:
    """Yield findings for the changelogs that have fewer partitions than their inputs."""
    partitions = {name: seen.partitions for name, seen in cluster.topics.items()}
    for changelog, needed in stage_topics.count_changelog_partitions(topology, partitions).items():
        ours = cluster.topics.get(changelog)
        if ours and ours.partitions < needed:
            yield error(
                changelog,
                f"has {ours.partitions} partitions, its input {needed}",
                "inorder topics create --grow, then restart all workers",
            )


def _check_transactions(topology: Topology, cluster: Cluster) -> Iterator[Finding]:
    open_s = topology.transaction_timeout_ns / 1e9
    for (topic, number), offset in sorted(cluster.open_at.items()):
        yield error(
            f"{topic}/{number}",
            f"a transaction has been open at offset {offset} for {open_s:.0f} s or longer, and"
            " readers of committed records cannot read beyond it",
            "end the producer's transaction, or wait for its time-out; kafka-transactions.sh"
            f" find-hanging --topic {topic} --partition {number} shows a hanging one, and abort"
            " ends it",
        )


def _check_rights(topology: Topology, cluster: Cluster) -> Iterator[Finding]:
    """Yield findings for the rights that the principal lacks to run all stages."""
    reported = set()
    for stage in topology.stages:
        for right in list_rights(topology, stage):
            may = _find_rights(right, cluster)
            if may is None or "All" in may:
                continue
            lacking = tuple(one for one in right.operations if one not in may)
            if lacking and (right.name, lacking) not in reported:
                reported.add((right.name, lacking))
                yield error(
                    right.name if right.kind == Kind.TOPIC else f"{right.kind} {right.name}",
                    f"this principal may not {' or '.join(lacking)} it for stage {stage.name}",
                    f"grant the rights that inorder topics acls --stage {stage.name} lists",
                )


def _find_rights(right: Right, cluster: Cluster) -> frozenset[str] | None:
    match right.kind:
        case Kind.TOPIC:
            seen = cluster.topics.get(right.name)
            return None if seen is None else seen.may
        case Kind.GROUP:
            return cluster.groups.get(right.name)
        case Kind.TRANSACTIONAL_ID:
            return cluster.ids.get(right.name)


def _alter_command(name: str, settings: Mapping[str, str]) -> str:
    where = f"--entity-type topics --entity-name {name}"
    added = ",".join(f"{key}={value}" for key, value in settings.items())
    return f"kafka-configs.sh --alter {where} --add-config {added}"
