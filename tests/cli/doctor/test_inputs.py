"""Examples: findings of `inorder doctor` on unreadable input, on a broker in the process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from agents.kafka.brokers import Brokers
from cli.doctor.inputs import LOOKED_AT, input_findings, largest_fall_ns
from tests.cli.invoking import inorder, text_file
from tests.inorder.records import Topic
from topology.config import parse

GOOD = {"sourceId": b"press", "seqNum": b"7"}


def publish(raw: Topic, count: int, headers: dict[str, bytes]) -> None:
    producer = Producer({"bootstrap.servers": raw.bootstrap, "log_level": 0})
    for number in range(count):
        producer.produce(raw.name, b'{"v": 1}', headers=dict(headers), partition=number % 2)
    assert producer.flush(10) == 0


def at(raw: Topic) -> Brokers:
    return Brokers(raw.bootstrap, is_embedded=True)


def text(raw: Topic) -> str:
    return f"streams: {{default: {{input: {raw.name}}}}}\n"


def mapped(raw: Topic) -> str:
    fields = "fields: {source: header.m, seq: header.n}"
    return f"streams: {{a: {{input: {raw.name}, {fields}}}}}"


def test_dead_input_is_found(raw: Topic, tmp_path: Path) -> None:
    publish(raw, 3, {})
    path = text_file(tmp_path / "t.yaml", text(raw))
    answer = inorder("doctor", "--topology", path, "--brokers", raw.bootstrap)
    assert answer.code == 1
    assert (
        "among its newest 3, every record is a dead letter (3), with reason source_missing"
        in answer.out
    )
    assert f"{raw.name}/0 offset 0" in answer.out or f"{raw.name}/1 offset 0" in answer.out
    assert "fields: {source: payload.NAME, seq: payload.NAME" in " ".join(answer.out.split())


def test_sound_input_has_no_finding(raw: Topic) -> None:
    topology = parse(text(raw))
    assert input_findings(topology, at(raw)) == []
    publish(raw, 5, {})
    publish(raw, LOOKED_AT, GOOD)
    assert input_findings(topology, at(raw)) == []
    assert input_findings(parse(text(Topic(raw.bootstrap, f"{raw.name}-absent"))), at(raw)) == []


def test_timestamp_falls_are_found(raw: Topic) -> None:
    producer = Producer({"bootstrap.servers": raw.bootstrap, "log_level": 0})
    for number, ts_s in enumerate((100, 102, 98.5, 103, 90, 104)):
        headers: dict[str, bytes] = {"sourceId": b"gate", "seqNum": b"%d" % number}
        stamped: Any = {**headers, "ts": b"%d" % (ts_s * 1e9)}
        producer.produce(raw.name, b"{}", headers=stamped, partition=0)
    assert producer.flush(10) == 0
    (found,) = input_findings(parse(text(raw)), at(raw))
    assert "timestamps of source gate fall by up to 13.0 s" in found.what
    assert "write clock: {max_set_back: 13s} in the stream default" in found.remedy
    declared = f"streams: {{default: {{input: {raw.name}, clock: {{max_set_back: 13s}}}}}}"
    assert input_findings(parse(declared), at(raw)) == []


def test_fall_counts_within_a_run() -> None:
    assert largest_fall_ns([(0, 5, 50), (0, 6, 60), (1, 0, 10)]) == 0
    assert largest_fall_ns([(0, 5, 50), (0, 6, 70), (0, 7, 45), (0, 8, 40), (0, 8, 0)]) == 30
    assert largest_fall_ns([(0, 5, -50), (0, 6, -40)]) == 0
    minutes = [(-1, n, 60 * k + n) for k in range(3) for n in range(30)]
    assert largest_fall_ns(minutes) == 0  # The source restarts at 0.


def test_unnamed_stream_is_found(raw: Topic) -> None:
    publish(raw, 4, {**GOOD, "streamId": b"pitch"})
    (found,) = input_findings(parse(text(raw)), at(raw))
    assert found.where == raw.name
    assert "with reason unknown_stream" in found.what
    assert "`streams:`" in found.remedy


def test_spread_source_is_found(raw: Topic) -> None:
    publish(raw, 1, {"m": b"oven", "n": b"1"})
    assert input_findings(parse(mapped(raw)), at(raw)) == []
    publish(raw, 2, {"m": b"press", "n": b"1"})
    (found,) = input_findings(parse(mapped(raw)), at(raw))
    assert found.where == raw.name
    assert "source press is in partitions 0 and 1" in found.what
    assert "inorder produce" in found.remedy
