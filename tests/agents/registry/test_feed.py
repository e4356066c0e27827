"""Examples: schemas from a registry that has them, lacks them, is unreachable or refuses."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import cached_property
from types import SimpleNamespace
from typing import Any

import fastavro
import pytest

from agents.registry import client
from agents.registry import feed as schema_feed
from agents.registry.client import RegistryRefuses
from agents.registry.feed import SchemaFeed
from codec.values.registered import RegisteredSchemas
from tests.codec.values.protobufs import file_descriptor, message_class
from tests.kit.registry import Registry, serving
from tests.waiting import calm_s, until
from topology.records.values import ValueFault

SUBJECT = "telemetry-value"
SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "Telemetry",
    "fields": [{"name": "device", "type": "string"}, {"name": "n", "type": "long"}],
}
TEXT = json.dumps(SCHEMA)
EVENT = {"device": "press-7", "n": 12}


class Known(Registry):
    """A registry with the `table` of the schemas found in it."""

    @cached_property
    def table(self) -> RegisteredSchemas:
        return RegisteredSchemas(self.url, [SUBJECT])


@pytest.fixture
def registry() -> Iterator[Known]:
    found = Known()
    with serving(found):
        yield found


def value(number: int) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(SCHEMA), EVENT)
    return b"\0" + number.to_bytes(4, "big") + stream.getvalue()


def look_up(found: RegisteredSchemas, *values: bytes | None, patience_s: float = 0.0) -> SchemaFeed:
    async def reach() -> SchemaFeed:
        feed = SchemaFeed(patience_s)
        await feed.reach(found, values)
        return feed

    return asyncio.run(reach())


def reason(found: RegisteredSchemas, content: bytes) -> tuple[str, str]:
    with pytest.raises(ValueFault) as fault:
        found.decode(content)
    return fault.value.reason, fault.value.detail


def test_schema_is_looked_up_once(registry: Known) -> None:
    number = registry.register(SUBJECT, TEXT)
    look_up(registry.table, value(number), value(number), None, b"{}")
    assert registry.table.decode(value(number)) == EVENT
    assert registry.asked[f"/schemas/ids/{number}"] == 1
    assert registry.table.find_unresolved([value(number)]) == []


def test_plain_key_names_no_schema(registry: Known) -> None:
    number = registry.register(SUBJECT, TEXT)
    key = (3 << 24).to_bytes(8, "big")
    record = SimpleNamespace(value=value(number), key=key)
    asyncio.run(SchemaFeed(0.0).resolve_records([registry.table], [record]))
    assert set(registry.asked) == {f"/schemas/ids/{number}", f"/schemas/ids/{number}/versions"}


def test_schema_can_refer_to_others(registry: Known) -> None:
    kind = {"type": "enum", "name": "plant.Kind", "symbols": ["A", "B"]}
    registry.register("kind", json.dumps(kind))
    whole = {**SCHEMA, "fields": [*SCHEMA["fields"], {"name": "kind", "type": "plant.Kind"}]}
    refers = [{"name": "plant.Kind", "subject": "kind", "version": 1}]
    number = registry.register(SUBJECT, json.dumps(whole), references=refers)
    content = value(number) + b"\x02"
    look_up(registry.table, content)
    assert registry.table.decode(content) == EVENT | {"kind": "B"}


def test_protobuf_value_is_decoded(registry: Known) -> None:
    schema = base64.b64encode(file_descriptor().SerializeToString()).decode()
    number = registry.register(SUBJECT, schema, "PROTOBUF")
    message = message_class()(device="press-7", n=12).SerializeToString()
    content = b"\0" + number.to_bytes(4, "big") + b"\0" + message
    look_up(registry.table, content)
    decoded = registry.table.decode(content)
    assert isinstance(decoded, dict)
    assert (decoded["device"], decoded["n"]) == ("press-7", 12)


def test_unknown_schema_is_reported(registry: Known) -> None:
    """Many invented ids together take no longer than one."""
    began_s = time.monotonic()
    feed = look_up(registry.table, *(value(number) for number in range(9, 109)), patience_s=1.0)
    assert time.monotonic() - began_s > 0.5
    assert calm_s(began_s) < 5
    assert reason(registry.table, value(9)) == (
        "schema_unknown",
        f"{registry.url} has no schema 9; register it there",
    )
    asked = registry.asked["/schemas/ids/9"]
    assert asked > 1
    asyncio.run(feed.reach(registry.table, [value(9)]))
    assert registry.asked["/schemas/ids/9"] == asked


async def test_later_schema_is_found(registry: Known) -> None:
    feed = SchemaFeed()
    reach = asyncio.create_task(feed.reach(registry.table, [value(1)]))
    await until(lambda: registry.asked["/schemas/ids/1"])
    registry.register(SUBJECT, TEXT)
    await reach
    assert registry.table.decode(value(1)) == EVENT


async def test_other_subject_is_refused(registry: Known, monkeypatch: pytest.MonkeyPatch) -> None:
    number = registry.register("somebody-s", TEXT)
    feed = SchemaFeed(0.0)
    await feed.reach(registry.table, [value(number)])
    registry.register(SUBJECT, TEXT)
    await feed.reach(registry.table, [value(number)])
    assert reason(registry.table, value(number)) == (
        "schema_unknown",
        "schema 1 is registered under somebody-s; name it in `subjects` to use it",
    )
    assert registry.asked[f"/schemas/ids/{number}"] == 1
    monkeypatch.setattr(schema_feed, "UNKNOWN_S", 0.0)
    await feed.reach(registry.table, [value(number)])
    assert registry.table.decode(value(number)) == EVENT


@pytest.mark.parametrize("status", [400, 422])
def test_invalid_id_is_unknown(registry: Known, status: int) -> None:
    registry.status = status
    look_up(registry.table, value(9))
    assert reason(registry.table, value(9))[0] == "schema_unknown"


@pytest.mark.parametrize(
    ("bound", "most", "detail"),
    [
        ("MAX_BYTES", 100, "schema 3 has more than 100 bytes; it is not read"),
        ("MAX_REFERRED", 1, "schema 3 refers to over 1 other schemas; it is not read"),
    ],
)
def test_oversized_schema_is_refused(
    registry: Known, monkeypatch: pytest.MonkeyPatch, bound: str, most: int, detail: str
) -> None:
    monkeypatch.setattr(client, bound, most)
    refers = [
        {"name": name, "subject": name, "version": 1}
        for name in ("plant.A", "plant.B")
        if registry.register(name, json.dumps({"type": "enum", "name": name, "symbols": ["A"]}))
    ]
    number = registry.register(SUBJECT, TEXT, references=refers)
    look_up(registry.table, value(number), patience_s=60.0)
    assert reason(registry.table, value(number)) == ("schema_refused", detail)
    assert registry.asked[f"/schemas/ids/{number}"] == 1


async def test_slow_registry_blocks_no_other(
    registry: Known,
) -> None:
    number = registry.register(SUBJECT, TEXT)
    feed = SchemaFeed()
    away = RegisteredSchemas("http://127.0.0.1:9", [SUBJECT])
    waiting = [asyncio.create_task(feed.reach(away, [value(1)])) for _ in range(2)]
    await until(lambda: feed.faults)
    await feed.reach(registry.table, [value(number)])
    (fault,) = feed.faults
    assert fault.startswith("waits for the schema registry: http://127.0.0.1:9 did not answer")
    for task in waiting:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        assert len(feed.faults) == (task is waiting[0])
    assert registry.table.decode(value(number)) == EVENT


@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        ('{"type": "array", "items": "null"}', "AVRO"),
        ("nonsense", "AVRO"),
        ("syntax = 'proto3';", "PROTOBUF"),
        ("////", "PROTOBUF"),
        ("{}", "XML"),
    ],
)
def test_invalid_schema_is_refused(registry: Known, schema: str, kind: str) -> None:
    number = registry.register(SUBJECT, schema, kind)
    look_up(registry.table, value(number))
    assert reason(registry.table, value(number))[0] == "schema_refused"


async def test_failing_registry_is_awaited(registry: Known) -> None:
    number = registry.register(SUBJECT, TEXT)
    feed = SchemaFeed(0.0)
    registry.status = 503
    reach = asyncio.create_task(feed.reach(registry.table, [value(number)]))
    await until(lambda: feed.faults)
    (fault,) = feed.faults
    assert fault == f"waits for the schema registry: {registry.url} answers 503"
    assert not reach.done()
    registry.status = 200
    await reach
    assert not feed.faults
    assert registry.table.decode(value(number)) == EVENT


@pytest.mark.parametrize("status", [401, 403])
def test_denial_names_the_variables(registry: Known, status: int) -> None:
    registry.status = status
    with pytest.raises(RegistryRefuses, match="set INORDER_REGISTRY_USER and"):
        look_up(registry.table, value(1))


def test_credentials_are_sent(registry: Known, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INORDER_REGISTRY_USER", "reader")
    monkeypatch.setenv("INORDER_REGISTRY_PASSWORD", "secret")
    number = registry.register(SUBJECT, TEXT)
    look_up(registry.table, value(number))
    assert registry.authorized == {"Basic " + base64.b64encode(b"reader:secret").decode()}


RENAMED = json.dumps(
    SCHEMA | {"fields": [{"name": "press", "type": "string", "aliases": ["device"]}]}
)


def test_reader_schema_is_per_stream(registry: Known) -> None:
    """Streams with different reader schemas share a feed; keys are read without a reader schema."""
    number = registry.register(SUBJECT, TEXT)
    tables = [registry.table, RegisteredSchemas(registry.url, [SUBJECT], reader=RENAMED)]

    async def reach() -> None:
        feed = SchemaFeed(0.0)
        for table in tables:
            await feed.reach(table, [value(number)])

    asyncio.run(reach())
    assert [each.decode(value(number)) for each in tables] == [EVENT, {"press": "press-7"}]
    assert [each.decode_key(value(number)) for each in tables] == [EVENT, EVENT]


def test_reader_schema_needs_avro(registry: Known) -> None:
    number = registry.register(SUBJECT, "{}", "JSON")
    table = RegisteredSchemas(registry.url, [SUBJECT], reader=RENAMED)
    content = b"\0" + number.to_bytes(4, "big") + b'{"device": 1}'
    look_up(table, content)
    why, detail = reason(table, content)
    assert (why, "leave it out" in detail) == ("schema_refused", True)
    assert table.decode_key(content) == {"device": 1}
