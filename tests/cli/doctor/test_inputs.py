"""Examples: what `inorder doctor` says of input records that cannot be read, on a broker in the
process."""

from __future__ import annotations

from pathlib import Path

from confluent_kafka import Producer

from agents.kafka.brokers import Brokers
from cli.doctor.inputs import LOOKED_AT, input_findings
from cli.local.embedded import EmbeddedBroker
from tests.cli.invoking import inorder
from topology.config import parse

GOOD = {"sourceId": b"press", "seqNum": b"7"}


def publish(broker: EmbeddedBroker, topic: str, count: int, headers: dict[str, bytes]) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    for number in range(count):
        producer.produce(topic, b'{"v": 1}', headers=dict(headers), partition=number % 2)
    assert producer.flush(10) == 0


def at(broker: EmbeddedBroker) -> Brokers:
    return Brokers(broker.bootstrap, is_embedded=True)


def text(topic: str) -> str:
    return f"streams: {{default: {{input: {topic}}}}}\n"


def test_every_record_is_dead(embedded_broker: EmbeddedBroker, topic: str, tmp_path: Path) -> None:
    publish(embedded_broker, topic, 3, {})
    path = tmp_path / "t.yaml"
    path.write_text(text(topic))
    answer = inorder("doctor", "--topology", path, "--brokers", embedded_broker.bootstrap)
    assert answer.code == 1
    assert (
        "among its newest 3, every record is a dead letter (3), with reason source_missing"
        in answer.out
    )
    assert f"{topic}/0 offset 0" in answer.out or f"{topic}/1 offset 0" in answer.out
    assert "fields: {source: payload.NAME, seq: payload.NAME" in " ".join(answer.out.split())


def test_what_is_sound_or_empty_is_no_finding(embedded_broker: EmbeddedBroker, topic: str) -> None:
    topology = parse(text(topic))
    assert input_findings(topology, at(embedded_broker)) == []
    publish(embedded_broker, topic, 5, {})
    publish(embedded_broker, topic, LOOKED_AT, GOOD)
    assert input_findings(topology, at(embedded_broker)) == []
    assert input_findings(parse(text(f"{topic}-absent")), at(embedded_broker)) == []


def test_a_stream_that_nobody_named(embedded_broker: EmbeddedBroker, topic: str) -> None:
    publish(embedded_broker, topic, 4, {**GOOD, "streamId": b"pitch"})
    (found,) = input_findings(parse(text(topic)), at(embedded_broker))
    assert found.where == topic
    assert "with reason unknown_stream" in found.what
    assert "`streams:`" in found.remedy


def test_a_source_of_others_in_several_partitions(
    embedded_broker: EmbeddedBroker, topic: str
) -> None:
    mapped = f"streams: {{a: {{input: {topic}, fields: {{source: header.m, seq: header.n}}}}}}"
    publish(embedded_broker, topic, 1, {"m": b"oven", "n": b"1"})
    assert input_findings(parse(mapped), at(embedded_broker)) == []
    publish(embedded_broker, topic, 2, {"m": b"press", "n": b"1"})
    (found,) = input_findings(parse(mapped), at(embedded_broker))
    assert found.where == topic
    assert "source press is in partitions 0 and 1" in found.what
    assert "inorder produce" in found.remedy
