"""End to end: foreign topics, without inorder's headers and with their own times.

JSON, Avro and Protobuf go through a worker exactly once under kill -9. For JSON, a replay of the
dump gives the same. Avro and Protobuf are written by confluent-kafka's own serializers through a
schema registry. Other tests have a topic that does not state arrivals, and a registry that is down
or denies access.

`tick_lag` is long, as in test_same_answer.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from benchmarks.workloads import crowd
from benchmarks.workloads.rows import Row
from inorder import rfc3339
from tests.codec.values.protobufs import message_class
from tests.end_to_end.oracle import assert_sound
from tests.end_to_end.records import Headers, Read, Sender, contract, read_all
from tests.end_to_end.replaying import assert_replays
from tests.end_to_end.setting import FUSED, SPLIT, Setting, settle
from tests.end_to_end.trouble import Trouble, play
from tests.end_to_end.worker import running, worker_on
from tests.kit.registry import Registry
from tests.services import SharedKafka
from tests.waiting import wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

EVENTS = 3_000
SPEED = 0.125
FEW = 100
S_NS = 10**9
CALM = "tick_lag: 3s\n"
ARRIVAL = "arrival: timestamp, "
SCHEMA = json.dumps(
    {
        "type": "record",
        "name": "Telemetry",
        "namespace": "plant",
        "fields": [
            {"name": "device", "type": ["null", "string"]},
            {"name": "n", "type": "long"},
            {"name": "at", "type": "long"},
        ],
    }
)
Telemetry = message_class()
Spoken = tuple[str, int, int]
"""Source, number and time of a value."""


class Format(NamedTuple):
    """A format of values: functions that write and read them, and its `stream` in the topology
    file.
    """

    stream: str
    write: Callable[[Spoken], bytes]
    read: Callable[[bytes], Spoken]

    def as_ours(self, record: Read) -> Read:
        """Return the record with the headers that its producer left out."""
        return record._replace(headers=contract(*self.read(record.value or b"")))


def in_json(_: Registry, __: str) -> Format:
    """Return the JSON format.

    Times have all their digits, since the oracle allows only one order of events within an instant,
    and a new source cannot keep that order.
    """

    def write(spoken: Spoken) -> bytes:
        source, number, ts_ns = spoken
        at = rfc3339.format_ns(ts_ns)
        return orjson.dumps({"device": {"id": source}, "n": number, "time": at, "note": "\xe4"})

    def read(value: bytes) -> Spoken:
        found = orjson.loads(value)
        ts_ns = rfc3339.parse_ns(found["time"].encode())
        assert ts_ns is not None
        return found["device"]["id"], found["n"], ts_ns

    return Format(
        "fields: {source: payload.device.id, seq: payload.n, ts: payload.time}", write, read
    )


def in_avro(registry: Registry, topic: str) -> Format:
    client = SchemaRegistryClient({"url": registry.url})
    context = SerializationContext(topic, MessageField.VALUE)
    serializer: Any = AvroSerializer(client, SCHEMA)
    deserializer: Any = AvroDeserializer(client)

    def write(spoken: Spoken) -> bytes:
        value: bytes = serializer(dict(zip(("device", "n", "at"), spoken, strict=True)), context)
        return value

    def read(value: bytes) -> Spoken:
        found = deserializer(value, context)
        return found["device"], found["n"], found["at"]

    return Format(registered(registry, topic, "avro"), write, read)


def in_protobuf(registry: Registry, topic: str) -> Format:
    client = SchemaRegistryClient({"url": registry.url})
    context = SerializationContext(topic, MessageField.VALUE)
    settings = {"use.deprecated.format": False}
    serializer: Any = ProtobufSerializer(Telemetry, client, settings)
    deserializer: Any = ProtobufDeserializer(Telemetry, settings, client)

    def write(spoken: Spoken) -> bytes:
        message = Telemetry(device=spoken[0], n=spoken[1])
        message.at.seconds, message.at.nanos = divmod(spoken[2], S_NS)
        value: bytes = serializer(message, context)
        return value

    def read(value: bytes) -> Spoken:
        found = deserializer(value, context)
        return found.device, found.n, found.at.seconds * S_NS + found.at.nanos

    return Format(registered(registry, topic, "protobuf"), write, read)


def registered(registry: Registry, topic: str, name: str) -> str:
    return (
        f"format: {name}, schema: {{registry: '{registry.url}', subjects: [{topic}-value]}},"
        " fields: {source: payload.device, seq: payload.n, ts: payload.at}"
    )


class Stranger(Sender):
    """A sender of values in a format, with headers that mean something else to inorder."""

    def __init__(self, setting: Setting, rows: Sequence[Row], spoken: Format, **more: Any) -> None:
        self._spoken = spoken
        super().__init__(setting, rows, **more)

    def record_of(self, row: Row, ts_ns: int) -> tuple[bytes, Headers]:
        value = self._spoken.write((row.source, row.seq, ts_ns))
        return value, [("kind", b"telemetry"), ("trace", b"%d" % row.seq)]


def settled(
    kafka: SharedKafka,
    folder: Path,
    registry: Registry,
    format_of: Callable[[Registry, str], Format] = in_avro,
    arrival: str = ARRIVAL,
) -> tuple[Setting, Format]:
    raw = f"telemetry-{uuid.uuid4().hex[:8]}"
    spoken = format_of(registry, raw)
    partitions, stages = (1, FUSED) if format_of is in_json else (2, SPLIT)
    kafka.create_topic(raw, partitions, {"message.timestamp.type": "CreateTime"})
    setting = settle(
        kafka.bootstrap,
        folder,
        stages=stages,
        partitions=partitions,
        raw=raw,
        stream=arrival + spoken.stream,
        more=CALM,
    )
    return setting, spoken


@pytest.mark.in_turns(3)
@pytest.mark.parametrize("format_of", [in_json, in_avro, in_protobuf])
def test_original_bytes_are_emitted_once(
    kafka: SharedKafka,
    tmp_path: Path,
    registry: Registry,
    format_of: Callable[[Registry, str], Format],
) -> None:
    setting, spoken = settled(kafka, tmp_path, registry, format_of)
    rows = crowd(EVENTS).rows
    sender = Stranger(setting, rows, spoken, speed=SPEED)
    play(setting, rows, SPEED, [(0.3, Trouble.kill_worker)], sender=sender)
    assert_sound(setting, as_ours=spoken.as_ours)
    ordered = read_all(setting.bootstrap, setting.ordered)
    (event, *_) = [record for record in ordered if not record.is_control]
    source, number, at_ns = spoken.read(event.value or b"")
    assert (event.header("sourceId"), event.number("seqNum")) == (source, number)
    assert event.header("trace") == str(number)
    assert event.header("ts") == str(at_ns)
    if setting.fused:
        assert_replays(setting)


def test_topic_must_state_arrivals(kafka: SharedKafka, tmp_path: Path, registry: Registry) -> None:
    setting, spoken = settled(kafka, tmp_path, registry, in_json, arrival="")
    Stranger(setting, crowd(FEW).rows, spoken).start().finish()
    worker = worker_on(setting)
    with running(worker):
        worker.ends_refused("write streams: {default: {arrival: timestamp}}")


def test_unavailable_registry_is_awaited(
    kafka: SharedKafka, tmp_path: Path, registry: Registry
) -> None:
    setting, spoken = settled(kafka, tmp_path, registry)
    Stranger(setting, crowd(FEW).rows, spoken).start().finish()
    registry.status = 503
    said = "waits for the schema registry"
    stopped = worker_on(setting)
    with running(stopped):
        wait_until(lambda: said in str(stopped.ask("ready")), "the wait for it")
        assert stopped.stop() == 0
        assert "took over" not in stopped.log
    worker = worker_on(setting, name="b")
    with running(worker):
        wait_until(lambda: said in str(worker.ask("ready")), "the wait for it")
        assert worker.ask("ready")[0] == 503
        registry.status = 200
        worker.wait_ready()
        sent = len(read_all(setting.bootstrap, setting.raw))
        wait_until(lambda: worker.metrics().get("records_in:reorder") == sent, "all it waited for")
    assert read_all(setting.bootstrap, setting.topology.topics.dead) == []


def test_denied_registry_ends_worker(
    kafka: SharedKafka, tmp_path: Path, registry: Registry
) -> None:
    setting, spoken = settled(kafka, tmp_path, registry)
    Stranger(setting, crowd(FEW).rows, spoken).start().finish()
    registry.status = 401
    worker = worker_on(setting)
    with running(worker):
        worker.ends_refused("set INORDER_REGISTRY_USER and INORDER_REGISTRY_PASSWORD")
