"""Examples: a foreign topic in JSON or Avro, read by `init` and `audit` without a topology."""

from __future__ import annotations

import io
import json

import fastavro
import pytest
from confluent_kafka import Producer

from cli.local.embedded import EmbeddedBroker
from tests.cli.invoking import inorder
from tests.kit.registry import Registry, serving
from tests.services import UniqueName
from topology.config import parse

MS = 1_000_000
BEGIN = 1_700_000_000 * 1_000 * MS


@pytest.mark.slow
@pytest.mark.parametrize("is_avro", [False, True])
def test_foreign_topic_is_read(
    embedded_broker: EmbeddedBroker, unique_name: UniqueName, *, is_avro: bool
) -> None:
    topic = unique_name("telemetry")
    embedded_broker.make_topic(topic)
    millis = {"type": "long", "logicalType": "timestamp-millis"}
    kinds = {"device": "string", "n": "long", "time": millis}
    fields = [{"name": name, "type": kind} for name, kind in kinds.items()]
    schema = {"type": "record", "name": "Telemetry", "fields": fields}
    with serving(Registry()) as registry:
        producer = Producer({"bootstrap.servers": embedded_broker.bootstrap})
        number = registry.register(f"{topic}-value", json.dumps(schema))
        for n in range(60):
            for machine in range(3):
                at_ms = BEGIN // MS + 250 * n + 7 * machine
                record = {"device": f"press-{machine}", "n": n, "time": at_ms}
                value = json.dumps(record).encode()
                if is_avro:
                    content = io.BytesIO()
                    fastavro.schemaless_writer(content, schema, record)
                    value = b"\0" + number.to_bytes(4, "big") + content.getvalue()
                producer.produce(topic, value, timestamp=at_ms)
        assert producer.flush(30) == 0
        at = ("init", "--brokers", embedded_broker.bootstrap, "--topic", topic)
        if is_avro:
            inorder(*at).refused("none of its values can be read")
        options = ("--format", "avro", "--registry", registry.url) if is_avro else ()
        answer = inorder(*at, *options)
        audit = inorder("audit", *at[1:], *options, "--json")
    assert answer.code == 0, answer.err
    assert "source press-0  number 0  2023-11-14T22:13:20.000000000Z" in answer.err
    stream = parse(answer.out).streams["default"]
    mapping = stream.mapping()
    assert mapping is not None
    assert [str(each) for each in (mapping.source, mapping.seq, mapping.ts)] == [
        "payload.device",
        "payload.n",
        "payload.time",
    ]
    assert (stream.input, stream.ts_unit) == (topic, None if is_avro else "ms")
    assert stream.format == ("avro" if is_avro else "json")
    assert stream.merge.new_source_allowance_ns is not None
    assert audit.code == 0, audit.err
    found = audit.last
    assert (found["records"], found["unreadable"]) == (180, 0)
    assert sorted(found["by_machine"]) == ["press-0", "press-1", "press-2"]
