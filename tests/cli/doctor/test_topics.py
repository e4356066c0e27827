"""Examples: faults of topics and brokers, from brokers' answers and on a real broker."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.client import AIOKafkaClient
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
)

from agents.kafka.brokers import Brokers
from agents.kafka.declared import list_needed_topics
from agents.kafka.security import PLAINTEXT
from agents.kafka.topics import ensure_topics
from cli.doctor.brokers import TIMEOUT_S, SeenBrokers
from cli.doctor.finding import Finding, Weight
from cli.doctor.topics import Cluster, SeenTopic, check_cluster, describe_cluster
from cli.doctor.transactional_ids import check_may_write
from cli.local.embedded import PARTITIONS, EmbeddedBroker
from cli.local.ports import free_ports
from tests.cli.invoking import inorder
from tests.end_to_end.setting import Setting, settle
from tests.services import SharedKafka, UniqueName
from topology.base.user_functions import UserFunctions
from topology.config import Topology, parse, parse_with
from topology.queries.detector.detector import Detector

TOPOLOGY = parse("streams: {default: {}}\nstages: [reorder, merge]\ntopics: {partitions: 2}\n")
SETTINGS = {
    "message.timestamp.type": "CreateTime",
    "min.insync.replicas": "2",
    "retention.ms": "604800000",
    "retention.bytes": "-1",
    "unclean.leader.election.enable": "false",
}


def as_declared(topology: Topology) -> dict[str, SeenTopic]:
    """Return the topics of a topology, sound and with three replicas."""
    return {
        spec.name: SeenTopic(spec.partitions, 3, config={**SETTINGS, **spec.config})
        for spec in list_needed_topics(topology)
    }


SOUND = Cluster(SeenBrokers(3), as_declared(TOPOLOGY))
CHANGELOG = "inorder.merge.events.sequenced.changelog"


def test_each_topic_is_declared_once() -> None:
    """Patterns and detectors in separate stages write one topic.

    A second request to create a topic makes librdkafka crash.
    """
    own = UserFunctions(detectors={"any": Detector(lambda state, event: (state, None))})
    queries = "{m: {pattern: 'PATTERN SEQ(A a, B b) WITHIN 1 s'}, d: {detector: any}}"
    stages = "[reorder, merge, pattern, detector]"
    topology = parse_with(f"streams: {{default: }}\nqueries: {queries}\nstages: {stages}\n", own)
    names = [spec.name for spec in list_needed_topics(topology)]
    assert len(names) == len(set(names))
    assert topology.topics.matches in names


def test_request_topic_is_declared() -> None:
    named = parse("streams: {default: {}}\ntopics: {resend: asked}")
    (spec,) = {*declared_names(named)} - {*declared_names(parse("streams: {default: {}}"))}
    assert spec == "asked"


def declared_names(topology: Topology) -> list[str]:
    return [spec.name for spec in list_needed_topics(topology)]


def test_table_of_query_is_compacted() -> None:
    query = "{window: tumbling 1s, aggregate: {n: count()}, upsert: true}"
    topology = parse(f"streams: {{default: {{}}}}\nqueries: {{q: {query}}}")
    (spec,) = [spec for spec in list_needed_topics(topology) if spec.name == "results.q"]
    assert (spec.config["cleanup.policy"], spec.config["retention.ms"]) == ("compact", "-1")
    topics = as_declared(topology)
    assert check_cluster(topology, Cluster(SeenBrokers(3), topics)) == []
    deleting = {**SETTINGS, **spec.config, "cleanup.policy": "delete"}
    topics["results.q"] = SeenTopic(spec.partitions, 3, config=deleting)
    (one,) = check_cluster(topology, Cluster(SeenBrokers(3), topics))
    assert (one.weight, one.where) == (Weight.ERROR, "results.q")
    assert "current results depend on it" in one.what


def found(name: str, seen: SeenTopic | None) -> list[Finding]:
    """Return the findings if only this topic differs."""
    topics = {key: value for key, value in SOUND.topics.items() if key != name}
    if seen is not None:
        topics[name] = seen
    return check_cluster(TOPOLOGY, Cluster(SeenBrokers(3), topics))


def config(name: str, settings: str) -> SeenTopic:
    """Return a topic that is sound except for these settings, as `a=b,c=d`."""
    seen = SOUND.topics[name]
    other = dict(pair.split("=") for pair in settings.split(","))
    return replace(seen, config={**seen.config, **other})


RAW, SEQUENCED, ORDERED, CLOCK = "events.raw", "events.sequenced", "events.ordered", "clock.offsets"
ERRORS: list[tuple[str, str | dict[str, Any] | None, str, str]] = [
    (RAW, None, "does not exist", "topics create"),
    (RAW, "message.timestamp.type=CreateTime",
     "message.timestamp.type is CreateTime, and events are ordered by it",
     "--add-config message.timestamp.type=LogAppendTime"),
    (ORDERED, "retention.ms=60000", "retention.ms is 60000", "retention.ms=-1"),
    (CHANGELOG, "cleanup.policy=delete", "cleanup.policy is delete", "cleanup.policy=compact"),
    (SEQUENCED, "max.message.bytes=1048576", "max.message.bytes is 1048576",
     "--add-config max.message.bytes="),
    (RAW, "retention.ms=20000", "keeps records for 20000 ms", "retention.ms=604800000"),
    *((topic, "cleanup.policy=compact", "only the newest record of each key remains",
       "cleanup.policy=delete") for topic in (RAW, SEQUENCED)),
    (CLOCK, "min.compaction.lag.ms=0", "min.compaction.lag.ms is 0",
     "min.compaction.lag.ms=604800000"),
    (CLOCK, "min.compaction.lag.ms=604799999", "inputs keep for 604800000 ms",
     "min.compaction.lag.ms=604800000"),
    *((topic, "max.message.bytes=1000", "max.message.bytes is 1000",
       "--add-config max.message.bytes=") for topic in ("events.dead", "events.gaps", ORDERED)),
    (ORDERED, {"leaderless": (1,)}, "no leader for partitions 1", "start the brokers that have"),
    (CHANGELOG, {"partitions": 1}, "has 1 partitions, its input 2", "--grow"),
    (RAW, {"may": frozenset({"Describe"})}, "may not Read it for stage reorder",
     "topics acls --stage reorder"),
]  # fmt: skip
WARNINGS: list[tuple[str, str | dict[str, Any] | None, str, str]] = [
    (RAW, "retention.ms=120000", "keeps records for 120000 ms", "retention.ms=604800000"),
    (RAW, "retention.bytes=1000", "1000 bytes per partition", "retention.bytes=-1"),
    (SEQUENCED, "retention.bytes=1000", "records that a stage has not read by then are lost",
     "retention.bytes=-1"),
    (ORDERED, "min.insync.replicas=1", "that only one broker has", "min.insync.replicas=2"),
    (ORDERED, "min.insync.replicas=3", "accepts nothing while one of its 3 copies is down",
     "min.insync.replicas=2"),
    (CHANGELOG, "segment.bytes=1073741824,segment.ms=604800000",
     "segment.bytes is 1073741824, segment.ms is 604800000: its newest segment",
     "--add-config segment.bytes=33554432,segment.ms=600000"),
    (CHANGELOG, "segment.bytes=1073741824",
     "segment.bytes is 1073741824: its newest segment is not compacted", "segment.bytes=33554432"),
    (ORDERED, "unclean.leader.election.enable=true", "lacks some of its records",
     "unclean.leader.election.enable=false"),
    (ORDERED, {"copies": 1}, "has 1 copies on 3 brokers", "replication: 3"),
    (ORDERED, {"config": {}}, "does not show its settings", "DescribeConfigs"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "change", "what", "remedy", "weight"),
    [*((*row, "error") for row in ERRORS), *((*row, "warning") for row in WARNINGS)],
)
def test_fault_of_topic_has_a_remedy(
    name: str, change: str | dict[str, Any] | None, what: str, remedy: str, weight: str
) -> None:
    """`change`: the topic's settings, or other properties of it; None: the topic is missing."""
    seen = config(name, change) if isinstance(change, str) else None
    if isinstance(change, dict):
        seen = replace(SOUND.topics[name], **change)
    (finding,) = found(name, seen)
    assert (finding.where, finding.weight) == (name, weight)
    assert what in finding.what
    assert remedy in finding.remedy


def test_missing_topics_share_a_remedy() -> None:
    (finding,) = check_cluster(TOPOLOGY, Cluster(SeenBrokers(3), {}))
    names = [spec.name for spec in list_needed_topics(TOPOLOGY)]
    assert finding.where == ", ".join(names)
    assert finding.what == f"do not exist, {len(names)} topics"


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        pytest.param(CHANGELOG, "segment.bytes=18000000,segment.ms=60000", id="smaller"),
        pytest.param(ORDERED, "retention.bytes=1000", id="what no stage reads"),
        # The user chooses the record size of an input.
        *[(RAW, f"max.message.bytes={size}") for size in (1_000, 1 << 20, 1 << 30)],
    ],
)
def test_harmless_setting_is_accepted(name: str, settings: str) -> None:
    assert found(name, config(name, settings)) == []


def test_samples_must_outlast_input() -> None:
    topics = {
        **SOUND.topics,
        "events.raw": config("events.raw", "retention.ms=3600000"),
        "clock.offsets": config("clock.offsets", "min.compaction.lag.ms=3600000"),
    }
    assert check_cluster(TOPOLOGY, replace(SOUND, topics=topics)) == []
    topics["events.raw"] = config("events.raw", "retention.ms=-1")
    (finding,) = check_cluster(TOPOLOGY, replace(SOUND, topics=topics))
    assert finding.where == "clock.offsets"


@pytest.mark.parametrize(
    ("may", "lacks"), [(set(), True), ({"Describe"}, True), ({"Read"}, False), ({"All"}, False)]
)
def test_missing_group_right_is_found(may: set[str], lacks: bool) -> None:
    groups = {"inorder.reorder": None, "inorder.merge": frozenset(may)}
    found = check_cluster(TOPOLOGY, replace(SOUND, groups=groups))
    assert [each.where for each in found] == ["group inorder.merge"] * lacks
    assert all("may not Read it for stage merge" in each.what for each in found)


def test_open_transaction_is_found() -> None:
    (finding,) = check_cluster(TOPOLOGY, replace(SOUND, open_at={("events.raw", 1): 7}))
    assert (finding.weight, finding.where) == (Weight.ERROR, "events.raw/1")
    assert "open at offset 7 for 10 s or longer" in finding.what
    assert "find-hanging --topic events.raw --partition 1" in finding.remedy


def test_sound_cluster_is_accepted() -> None:
    assert check_cluster(TOPOLOGY, SOUND) == []
    topics = {name: replace(seen, copies=1) for name, seen in SOUND.topics.items()}
    assert check_cluster(TOPOLOGY, Cluster(SeenBrokers(1), topics)) == []


@pytest.mark.parametrize(
    ("seen", "weight", "what", "remedy"),
    [
        (SeenBrokers(3, gives_ids=False), "warning", "give topics no ids", "2.8 or newer"),
        (SeenBrokers(3, ahead_ms=2_500), "warning", "2500 ms ahead of", "NTP"),
        (SeenBrokers(3, config={"transaction.max.timeout.ms": "5000"}), "error",
         "is 5000, and stages request 10000", "transaction_timeout: 5000ms"),
        (SeenBrokers(3, config={"transactional.id.expiration.ms": "3600000"}), "warning",
         "transactional.id.expiration.ms is 3600000", "a day or more"),
        (SeenBrokers(3, config={"offsets.retention.minutes": "60"}), "warning",
         "offsets.retention.minutes is 60", "a day or more"),
        (SeenBrokers(3, config={"auto.create.topics.enable": "true"}), "warning",
         "a misspelled name", "set it to false"),
    ],
)  # fmt: skip
def test_fault_of_brokers_is_found(seen: SeenBrokers, weight: str, what: str, remedy: str) -> None:
    (finding,) = check_cluster(TOPOLOGY, Cluster(seen, SOUND.topics))
    assert finding.weight == weight
    assert what in finding.what
    assert remedy in finding.remedy


def test_default_brokers_are_sound() -> None:
    config = {
        "transaction.max.timeout.ms": "900000",
        "transactional.id.expiration.ms": "604800000",
        "offsets.retention.minutes": "10080",
        "auto.create.topics.enable": "false",
    }
    usual = SeenBrokers(3, config=config, ahead_ms=-5)
    assert check_cluster(TOPOLOGY, Cluster(usual, SOUND.topics)) == []


def test_unused_topic_is_noted(embedded_broker: EmbeddedBroker, tmp_path: Path) -> None:
    """A single task needs no topic between stages, so an existing one is noted as harmless."""
    cut = parse("streams: {default: {}}\nstages: [reorder, merge]\n")
    assert cut.topics.sequenced in declared_names(cut)
    whole = parse("streams: {default: {}}\n")
    assert whole.topics.sequenced not in declared_names(whole)
    for name in declared_names(whole):
        embedded_broker.make_topic(name)
    path = tmp_path / "t.yaml"
    path.write_text("streams: {default: {}}\n")
    ask = ("doctor", "--topology", path, "--brokers", embedded_broker.bootstrap)
    assert whole.topics.sequenced not in inorder(*ask).out
    embedded_broker.make_topic(whole.topics.sequenced)
    left = inorder(*ask)
    assert left.code == 0
    (line,) = [each for each in left.out.splitlines() if whole.topics.sequenced in each]
    assert line.startswith("note     events.sequenced: no stage of this file reads it: harmless")


def test_absent_topic_names_its_remedy(embedded_broker: EmbeddedBroker, tmp_path: Path) -> None:
    """An embedded broker creates the topics by itself, so `topics create` refuses it."""
    path = settle(embedded_broker.bootstrap, tmp_path, make=False).path
    ask = ("doctor", "--topology", path, "--brokers", embedded_broker.bootstrap)
    answer = inorder(*ask)
    assert answer.code == 1
    assert "run inorder dev with this file; its broker creates them" in answer.out
    assert "topics create" not in answer.out


@pytest.fixture
def embedded(embedded_broker: EmbeddedBroker, tmp_path: Path) -> Setting:
    """Return a topology whose topics are on an embedded broker."""
    setting = settle(embedded_broker.bootstrap, tmp_path, partitions=PARTITIONS, make=False)
    for spec in list_needed_topics(setting.topology):
        embedded_broker.make_topic(spec.name)
    return setting


def test_embedded_broker_hides_settings(embedded: Setting) -> None:
    began_s = time.monotonic()
    answer = inorder("doctor", "--topology", embedded.path, "--brokers", embedded.bootstrap)
    assert time.monotonic() - began_s < TIMEOUT_S
    assert (answer.code, answer.err) == (0, "1 finding\n")
    assert "do not show the settings of topics" in answer.out


def test_missing_answer_counts_as_denied(
    embedded: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No request is answered, so every fallback is used."""
    monkeypatch.setattr(Future, "result", Mock(side_effect=TimeoutError))
    seen = describe_cluster(embedded.topology, Brokers(embedded.bootstrap, is_embedded=False))
    found_ = check_cluster(embedded.topology, seen)
    assert [each.where for each in found_] == [
        spec.name for spec in list_needed_topics(embedded.topology)
    ]
    assert {each.what for each in found_} == {"does not show its settings"}


@pytest.mark.kafka
def test_real_broker_faults_are_found(kafka: SharedKafka, tmp_path: Path) -> None:
    """All missing topics are named in one finding."""
    setting = settle(kafka.bootstrap, tmp_path, partitions=1, make=False)
    ask = ("doctor", "--topology", setting.path, "--brokers", kafka.bootstrap)
    absent = inorder(*ask)
    assert absent.code == 1
    specs = list_needed_topics(setting.topology)
    names = ", ".join(spec.name for spec in specs)
    assert absent.out.startswith(f"error    {names}: do not exist, {len(specs)} topics")
    ensure_topics(specs, kafka.bootstrap, setting.topology.topics.replication)
    sound = inorder(*ask)
    assert (sound.code, sound.out, sound.err) == (0, "", "no faults found\n")
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    entry = ConfigEntry("retention.ms", "1000", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(
        ConfigResource.Type.TOPIC, setting.ordered, incremental_configs=[entry]
    )
    admin.incremental_alter_configs([resource])[resource].result(20)
    hurt = inorder(*ask)
    assert hurt.code == 1
    assert hurt.out.startswith(f"error    {setting.ordered}: retention.ms is 1000, and a time")
    assert "kafka-configs.sh --alter" in hurt.out


@pytest.mark.kafka
def test_rights_check_is_harmless(kafka: SharedKafka, unique_name: UniqueName) -> None:
    """An open transaction with the checked id continues and is committed."""
    name = unique_name("asked")
    kafka.create_topic(name)

    async def scenario() -> int:
        async with (
            AIOKafkaProducer(bootstrap_servers=kafka.bootstrap, transactional_id=name) as producer,
            producer.transaction(),
        ):
            await producer.send_and_wait(name, b"x")
            ids = [name, f"{name}.that.nobody.has"]
            rights = await asyncio.to_thread(
                check_may_write, kafka.bootstrap, PLAINTEXT, ids, TIMEOUT_S
            )
            assert rights == dict.fromkeys(ids, True)
        async with AIOKafkaConsumer(
            name,
            bootstrap_servers=kafka.bootstrap,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
        ) as consumer:
            async with asyncio.timeout(TIMEOUT_S):
                return int((await consumer.getone()).offset)

    assert asyncio.run(scenario()) == 0


def test_no_broker_means_unknown_right() -> None:
    nobody = f"127.0.0.1:{free_ports(1)[0]}"
    assert check_may_write(nobody, PLAINTEXT, ["one"], TIMEOUT_S) == {"one": None}


@pytest.mark.parametrize(
    ("code", "may"),
    [
        *[(49, True), (16, True), (14, True), (53, False)],
        *[(15, None), (41, None), (-1, None), (0, None)],
    ],
)
def test_error_code_reveals_permission(
    monkeypatch: pytest.MonkeyPatch, code: int, may: bool | None
) -> None:
    answer = SimpleNamespace(error_code=code)
    monkeypatch.setattr(AIOKafkaClient, "bootstrap", AsyncMock())
    monkeypatch.setattr(AIOKafkaClient, "send", AsyncMock(return_value=answer))
    monkeypatch.setattr(AIOKafkaClient, "get_random_node", Mock(return_value=0))
    assert check_may_write("nowhere:1", PLAINTEXT, ["one"], TIMEOUT_S) == {"one": may}


def test_missing_id_right_is_found() -> None:
    ids = {"inorder.reorder.": frozenset({"Describe"}), "inorder.merge.": None}
    (finding,) = check_cluster(TOPOLOGY, replace(SOUND, ids=ids))
    assert (finding.where, finding.weight) == ("transactional-id inorder.reorder.", "error")
    assert finding.what == "this principal may not Write it for stage reorder"
    assert finding.remedy == "grant the rights that inorder topics acls --stage reorder lists"
