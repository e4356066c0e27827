"""Examples: events and dead letters from Avro and Protobuf values, for queries and dumps.

Law: no foreign value raises an exception.
"""

from __future__ import annotations

import asyncio
import io
import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import fastavro
import pytest
from aiokafka.structs import TopicPartition

from agents.registry.feed import SchemaFeed
from agents.stage.arrangement import ArrangementError
from agents.stage.arrival import ArrivalClock
from agents.stage.inlet import Inlet, InletBatch
from codec.batches import Record
from recordings.topic_lines import TopicLines
from tests.agents.records import arranged
from tests.codec.values.protobufs import descriptor_set, message_class
from tests.kit.registry import Registry
from tests.seeds import seeds_of_today
from topology.base.outcome import Malformed
from topology.base.payload import UNREADABLE, read_payload
from topology.config import Topology, parse

FIELDS = "fields: {source: payload.device, seq: payload.n, ts: payload.at}"
FIELDS_OF_SCHEMA: list[dict[str, Any]] = [
    {"name": "device", "type": ["null", "string"]},
    {"name": "n", "type": ["long", "double"]},
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    {"name": "raw", "type": "bytes"},
]
SCHEMA: dict[str, Any] = {"type": "record", "name": "Telemetry", "fields": FIELDS_OF_SCHEMA}
EVENT = {"device": "press-7", "n": 12, "at": 1_790_000_000_250, "raw": b"\xff"}
READ = {
    "device": "press-7",
    "n": 12,
    "at": "2026-09-21T14:13:20.250000000Z",
    "raw": {"base64": "/w=="},
}


def avro_value(**changes: Any) -> bytes:
    content = io.BytesIO()
    fastavro.schemaless_writer(content, SCHEMA, EVENT | changes)
    return content.getvalue()


def topology_of(stream: str) -> Topology:
    return parse(f"streams: {{a: {{input: t, {stream}, {FIELDS}}}}}\nstages: [reorder, merge]\n")


def registered(registry: Registry) -> tuple[Topology, bytes]:
    """Return a topology with the registered schema, and the five bytes before a value."""
    number = registry.register("t-value", json.dumps(SCHEMA))
    schema = f"schema: {{registry: '{registry.url}', subjects: [t-value]}}"
    return topology_of(f"format: avro, {schema}"), b"\0" + number.to_bytes(4, "big")


def of_file(folder: Path) -> Topology:
    (folder / "press.avsc").write_text(json.dumps(SCHEMA))
    return topology_of(f"format: avro, schema: {{file: {folder}/press.avsc}}")


def read_by(topology: Topology, reader: dict[str, Any]) -> Topology:
    stream = topology.streams["a"].with_reader(json.dumps(reader))
    return topology.model_copy(update={"streams": {"a": stream}})


def inlet_of(topology: Topology, stage: int = 0, topic: str = "t") -> Inlet:
    return arranged(topology, stage).inlet(TopicPartition(topic, 0))


def read(
    inlet: Inlet, *values: bytes | None, headers: Sequence[tuple[str, bytes | None]] = ()
) -> InletBatch:
    records = [
        Record(at, 1_790_000_001_000, 1, None, value, list(headers))
        for at, value in enumerate(values)
    ]
    asyncio.run(SchemaFeed(0.0).resolve_records(inlet.registered, records))
    return inlet.read(records, ArrivalClock(0))


@pytest.mark.parametrize("by", ["file", "registry"])
def test_avro_value_is_an_event(by: str, registry: Registry, tmp_path: Path) -> None:
    topology, prefix = registered(registry) if by == "registry" else (of_file(tmp_path), b"")
    inlet = inlet_of(topology)
    (event,) = read(inlet, prefix + avro_value()).events
    assert (event.source, event.seq, event.ts_ns) == ("press-7", 12, 1_790_000_000_250_000_000)
    assert event.value == event.record.value == prefix + avro_value()
    (again,) = inlet.read_again([event.record])
    assert read_payload(event.value) == read_payload(again.value) == READ


RENAMED = SCHEMA | {
    "fields": [
        *(field for field in FIELDS_OF_SCHEMA if field["name"] != "raw"),
        {"name": "load", "type": "bytes", "aliases": ["raw"]},
        {"name": "unit", "type": "string", "default": "kN"},
    ]
}


@pytest.mark.parametrize("by", ["file", "registry"])
def test_avro_follows_reader_schema(by: str, registry: Registry, tmp_path: Path) -> None:
    """Producers call a field `raw`, and the queries call it `load`."""
    topology, prefix = registered(registry) if by == "registry" else (of_file(tmp_path), b"")
    inlet = inlet_of(read_by(topology, RENAMED))
    (event,) = read(inlet, prefix + avro_value()).events
    assert event.value == prefix + avro_value()
    expected = {name: each for name, each in READ.items() if name != "raw"}
    expected |= {"load": READ["raw"], "unit": "kN"}
    assert read_payload(event.value) == expected


def test_unfit_value_is_a_dead_letter(registry: Registry) -> None:
    topology, prefix = registered(registry)
    needed = RENAMED | {"fields": [*RENAMED["fields"], {"name": "plant", "type": "string"}]}
    (dead,) = read(inlet_of(read_by(topology, needed)), prefix + avro_value()).dead
    assert dead.reason == "schema_refused"
    assert "No default value for field plant" in dead.detail


def test_protobuf_is_read_by_schema_file(tmp_path: Path) -> None:
    (tmp_path / "plant.desc").write_bytes(descriptor_set())
    schema = f"schema: {{file: {tmp_path}/plant.desc, message: plant.Telemetry}}"
    message = message_class()(device="press-7", n=0)
    message.at.seconds = 1_790_000_000
    found = read(inlet_of(topology_of(f"format: protobuf, {schema}")), message.SerializeToString())
    (event,) = found.events
    assert (event.source, event.seq, event.ts_ns) == ("press-7", 0, 1_790_000_000 * 10**9)
    payload = read_payload(event.value)
    assert (payload["n"], payload["kind"]) == (0, "READING")


def test_json_can_follow_registry_bytes(registry: Registry) -> None:
    topology = topology_of(f"schema: {{registry: '{registry.url}'}}")
    value = json.dumps({"device": "press-7", "n": 1, "at": 5, "v": 0.5}).encode()
    found = read(inlet_of(topology), b"\0\0\0\0\x09" + value, value)
    assert [event.source for event in found.events] == ["press-7", "press-7"]
    assert [read_payload(event.value)["v"] for event in found.events] == [0.5, 0.5]
    assert not registry.asked


def test_dead_letters_have_reasons(registry: Registry) -> None:
    topology, prefix = registered(registry)
    values: list[tuple[bytes | None, str]] = [
        (prefix + avro_value(device=None), "source_missing"),
        (prefix + avro_value(n=17.0), "seq_not_integer"),
        (prefix + avro_value()[:-3], "value_undecodable"),
        (prefix + avro_value() + b"\0", "value_undecodable"),
        (b"\0\0\0\x63\x63" + avro_value(), "schema_unknown"),
        (b"{}", "value_undecodable"),
        (None, "source_missing"),
    ]
    found = read(inlet_of(topology), *(value for value, _ in values))
    assert [dead.reason for dead in found.dead] == [reason for _, reason in values]
    details = [dead.detail for dead in found.dead]
    assert all("press-7" not in detail for detail in details)
    assert "`payload` has no `device`; write it in every record" in details[0]
    assert "cast it" in details[1]
    assert "register it there" in details[4]
    assert "set schema: {file: …}" in details[5]


SEQUENCED: list[tuple[str, bytes | None]] = [
    ("sourceId", b"press-7"), ("seqNum", b"12"), ("streamId", b"a"), ("ts", b"5"), ("refTs", b"5"),
    ("err", b"0"), ("arrival", b"5"), ("at", b"5"), ("lane", b"0"), ("segment", b"0"),
]  # fmt: skip


@pytest.mark.parametrize("is_sound", [True, False])
def test_sequenced_payload_is_decoded(registry: Registry, *, is_sound: bool) -> None:
    """An undecodable payload is marked as unreadable, and is not a dead letter."""
    topology, prefix = registered(registry)
    inlet = inlet_of(topology, 1, topology.topics.sequenced)
    value = prefix + avro_value() if is_sound else prefix
    found = read(inlet, value, headers=SEQUENCED)
    assert not found.dead
    expected = READ if is_sound else UNREADABLE
    assert [read_payload(event.value) for event in found.events] == [expected]


def test_dumped_payload_is_decoded(registry: Registry) -> None:
    topology, prefix = registered(registry)
    lines = TopicLines(topology, ["t"], ())

    class Polled(Record):
        topic, partition = "t", 0

    record = Polled(0, 1_790_000_001_000, 1, None, prefix + avro_value(), [])
    asyncio.run(lines.await_schemas([record]))
    line = lines.line(record, ArrivalClock(0))
    assert line is not None
    assert (line["source"], line["payload"]) == ("press-7", READ)


def test_bad_schema_file_is_refused(tmp_path: Path) -> None:
    topology = of_file(tmp_path)
    (tmp_path / "press.avsc").write_text('{"type": "array", "items": "null"}')
    with pytest.raises(ArrangementError, match=r"press.avsc has an array whose items"):
        inlet_of(topology)
    (tmp_path / "press.avsc").unlink()
    with pytest.raises(ArrangementError, match="No such file or directory; name the file"):
        inlet_of(topology)


@pytest.mark.parametrize("seed", seeds_of_today(2))
def test_law_value_is_an_event_or_dead(registry: Registry, seed: int) -> None:
    dice = random.Random(seed)
    topology, prefix = registered(registry)
    inlet = inlet_of(topology)
    values = []
    for _ in range(1_000):
        value = bytearray(prefix + avro_value(n=dice.randrange(2**40)))
        for _ in range(dice.randrange(5)):
            value[dice.randrange(5, len(value))] ^= 1 << dice.randrange(8)
        values.append(bytes(value[: dice.randint(5, len(value))] if dice.random() < 0.2 else value))
    values += [dice.randbytes(dice.randrange(1, 40)).lstrip(b"\0") for _ in range(200)]
    found = read(inlet, *values)
    at = {event.offset for event in found.events if event.record is not None}
    assert at | {dead.offset for dead in found.dead} == set(range(len(values)))
    assert all(isinstance(dead, Malformed) for dead in found.dead)
    for event in found.events:
        if isinstance(event.value, bytes):
            json.dumps(read_payload(event.value))
