"""End to end: topics in Avro and Protobuf, written by confluent-kafka's own serializers through a
schema registry, go through a worker exactly once under kill -9; and what a registry that is away,
or lets nobody in, makes of a worker."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from agents.exits import Exit
from benchmarks.workloads import crowd
from benchmarks.workloads.rows import Row
from cli.local.poll import wait_until
from tests.codec.values.protobufs import message_class
from tests.end_to_end.oracle import Evidence, checked
from tests.end_to_end.records import Headers, Read, Sender, contract, read_all
from tests.end_to_end.setting import SPLIT, Setting, settle
from tests.end_to_end.trouble import Trouble, play
from tests.end_to_end.worker import Worker, running, worker_on
from tests.kit.registry import Registry, serving
from tests.services import SharedKafka

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

EVENTS = 6_000
SPEED = 0.25
TIMEOUT_S = 60.0
FEW = 100
S_NS = 10**9
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


class Format:
    """`write` and `read` of one topic, by confluent-kafka."""

    def __init__(self, name: str, registry: Registry, topic: str) -> None:
        client = SchemaRegistryClient({"url": registry.url})
        context = SerializationContext(topic, MessageField.VALUE)
        self.write: Callable[[Spoken], bytes]
        self.read: Callable[[bytes], Spoken]
        if name == "avro":
            self._use_avro(AvroSerializer(client, SCHEMA), AvroDeserializer(client), context)
            return
        settings = {"use.deprecated.format": False}
        self._use_protobuf(
            ProtobufSerializer(Telemetry, client, settings),
            ProtobufDeserializer(Telemetry, settings, client),
            context,
        )

    def _use_avro(self, serializer: Any, deserializer: Any, context: Any) -> None:
        def write(spoken: Spoken) -> bytes:
            value: bytes = serializer(
                dict(zip(("device", "n", "at"), spoken, strict=True)), context
            )
            return value

        def read(value: bytes) -> Spoken:
            found = deserializer(value, context)
            return found["device"], found["n"], found["at"]

        self.write, self.read = write, read

    def _use_protobuf(self, serializer: Any, deserializer: Any, context: Any) -> None:
        def write(spoken: Spoken) -> bytes:
            message = Telemetry(device=spoken[0], n=spoken[1])
            message.at.seconds, message.at.nanos = divmod(spoken[2], S_NS)
            value: bytes = serializer(message, context)
            return value

        def read(value: bytes) -> Spoken:
            found = deserializer(value, context)
            return found.device, found.n, found.at.seconds * S_NS + found.at.nanos

        self.write, self.read = write, read


class Stranger(Sender):
    """Sends values of a format, without a header of ours."""

    def __init__(self, setting: Setting, rows: Sequence[Row], spoken: Format, **more: Any) -> None:
        self._spoken = spoken
        super().__init__(setting, rows, **more)

    def record_of(self, row: Row, ts_ns: int) -> tuple[bytes, Headers]:
        return self._spoken.write((row.source, row.seq, ts_ns)), [("trace", b"%d" % row.seq)]


@pytest.fixture
def registry() -> Iterator[Registry]:
    with serving(Registry()) as found:
        yield found


def settled(
    kafka: SharedKafka, folder: Path, registry: Registry, name: str
) -> tuple[Setting, Format]:
    raw = f"telemetry-{uuid.uuid4().hex[:8]}"
    kafka.create_topic(raw, 2, {"message.timestamp.type": "CreateTime"})
    stream = (
        f"arrival: timestamp, format: {name},"
        f" schema: {{registry: '{registry.url}', subjects: [{raw}-value]}},"
        " fields: {source: payload.device, seq: payload.n, ts: payload.at}"
    )
    setting = settle(kafka.bootstrap, folder, stages=SPLIT, raw=raw, stream=stream)
    return setting, Format(name, registry, raw)


@pytest.mark.parametrize("name", ["avro", "protobuf"])
def test_exactly_once_with_the_original_bytes(
    kafka: SharedKafka, tmp_path: Path, registry: Registry, name: str
) -> None:
    setting, spoken = settled(kafka, tmp_path, registry, name)
    rows = crowd(EVENTS).rows
    sender = Stranger(setting, rows, spoken, speed=SPEED)
    play(setting, tmp_path, rows, SPEED, [(0.3, Trouble.kill_worker)], sender=sender)
    topics = setting.topology.topics
    names = (setting.ordered, topics.late, topics.dead, topics.gaps)
    ordered, late, dead, gaps = (read_all(setting.bootstrap, topic) for topic in names)

    def as_ours(record: Read) -> Read:
        return record._replace(headers=contract(*spoken.read(record.value or b"")))

    raw = [as_ours(record) for record in read_all(setting.bootstrap, setting.raw)]
    verdict = checked(Evidence(raw, ordered, late, dead, gaps))
    print(verdict)
    assert not verdict.faults, verdict
    (event, *_) = [record for record in ordered if not record.is_control]
    source, number, at_ns = spoken.read(event.value or b"")
    assert (event.header("sourceId"), event.number("seqNum")) == (source, number)
    assert event.header("ts") == str(at_ns)


def test_a_registry_that_is_away_is_waited_for_and_nothing_is_lost(
    kafka: SharedKafka, tmp_path: Path, registry: Registry
) -> None:
    setting, spoken = settled(kafka, tmp_path, registry, "avro")
    Stranger(setting, crowd(FEW).rows, spoken).start().finish()
    registry.status = 503
    said = "waits for the schema registry"
    stopped = Worker("a", setting.path, setting.bootstrap, tmp_path)
    with running(stopped, may_start=[stopped]):
        wait_until(lambda: said in str(stopped.ask("ready")), TIMEOUT_S, "the wait for it")
        assert stopped.stop() == 0
        assert "took over" not in stopped.log
    worker = worker_on(setting, tmp_path, name="b")
    with running(worker, may_start=[worker]):
        wait_until(lambda: said in str(worker.ask("ready")), TIMEOUT_S, "the wait for it")
        assert worker.ask("ready")[0] == 503
        registry.status = 200
        worker.wait_ready()
        sent = len(read_all(setting.bootstrap, setting.raw))
        wait_until(
            lambda: worker.metrics().get("records_in:reorder") == sent,
            TIMEOUT_S,
            "all it waited for",
        )
    assert read_all(setting.bootstrap, setting.topology.topics.dead) == []


def test_a_registry_that_lets_nobody_in_ends_the_worker_with_what_to_set(
    kafka: SharedKafka, tmp_path: Path, registry: Registry
) -> None:
    setting, spoken = settled(kafka, tmp_path, registry, "avro")
    Stranger(setting, crowd(FEW).rows, spoken).start().finish()
    registry.status = 401
    worker = worker_on(setting, tmp_path)
    with running(worker, may_start=[worker]):
        wait_until(lambda: not worker.alive, TIMEOUT_S, "the worker's refusal")
        assert worker.exit_code() == Exit.REFUSED
        assert "set INORDER_REGISTRY_USER and INORDER_REGISTRY_PASSWORD" in worker.log
