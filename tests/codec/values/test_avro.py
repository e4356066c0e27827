"""Examples: decoded Avro values, and faults in place of exceptions for hostile bytes."""

from __future__ import annotations

import io
import json
import random
import uuid
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import fastavro
import pytest

from codec.values import avro
from codec.values.schema_fault import SchemaFault
from tests.seeds import seeds_of_today
from topology.records.values import UNDECODABLE, Timestamp, ValueFault

NOW = datetime(2026, 9, 21, 12, 0, 0, 123456, UTC)
NOW_NS = int(NOW.timestamp()) * 10**9 + 123_456_000


def record(*fields: tuple[str, Any]) -> dict[str, Any]:
    named = [{"name": name, "type": type_} for name, type_ in fields]
    return {"type": "record", "name": "Telemetry", "namespace": "plant", "fields": named}


def logical(type_: str, name: str, **more: object) -> dict[str, Any]:
    return {"type": type_, "logicalType": name, **more}


def written(schema: Any, value: object) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), value)
    return stream.getvalue()


def read(schema: Any, value: bytes | None) -> object:
    return avro.make_decoder(avro.parse(json.dumps(schema)))(value)


FIXED: dict[str, Any] = {"type": "fixed", "name": "F", "size": 16}
MACHINE = uuid.UUID("12345678-1234-5678-1234-567812345678")


LONG = Decimal("1234567890.123456789012345678901234567890")
SAME = [
    ("long", 2**63 - 1),
    ("double", 0.1),
    ("string", "ü"),
    ("bytes", b"\xff"),
    ("boolean", True),
    (["null", "long"], None),
    (["null", "long"], 7),
    (["null", record(("n", "int"))], {"n": 7}),
    ({"type": "enum", "name": "E", "symbols": ["UP", "DOWN"]}, "DOWN"),
    ({"type": "array", "items": "int"}, [1, 2]),
    ({"type": "map", "values": "int"}, {"a": 1}),
    (logical("bytes", "decimal", precision=40, scale=3), Decimal("1.250")),
    (logical("bytes", "decimal", precision=40, scale=30), LONG),
    (FIXED | {"logicalType": "decimal", "precision": 30, "scale": 2}, Decimal("-1.25")),
    (logical("int", "time-millis"), 5),
    (logical("long", "plant-specific"), 5),
]
MILLIS, LOCAL = NOW.replace(microsecond=123_000), NOW.replace(tzinfo=None)


@pytest.mark.parametrize(
    ("schema", "value", "expected"),
    [
        *((schema, value, value) for schema, value in SAME),
        (logical("string", "uuid"), MACHINE, str(MACHINE)),
        (logical("int", "date"), date(2026, 9, 21), "2026-09-21"),
        (logical("long", "timestamp-micros"), NOW, Timestamp(NOW_NS)),
        (logical("long", "timestamp-millis"), MILLIS, Timestamp(NOW_NS - 456_000)),
        (logical("long", "local-timestamp-micros"), LOCAL, Timestamp(NOW_NS, is_local=True)),
    ],
)
def test_value_is_decoded(schema: Any, value: object, expected: object) -> None:
    found = read(schema, written(schema, value))
    assert found == expected
    assert type(found) is type(expected)


def test_nanoseconds_are_exact() -> None:
    schema = logical("long", "timestamp-nanos")
    assert read(schema, written("long", NOW_NS + 789)) == Timestamp(NOW_NS + 789)


def test_tombstone_is_null() -> None:
    assert read("long", None) is None


def test_referenced_types_are_resolved() -> None:
    inner = json.dumps({"type": "enum", "name": "plant.Kind", "symbols": ["A", "B"]})
    schema = avro.parse(json.dumps(record(("kind", "plant.Kind"))), [inner])
    assert avro.make_decoder(schema)(b"\x02") == {"kind": "B"}


NULLS = {"type": "array", "items": "null"}
HOLLOW = {"type": "array", "items": record(*((f"f{n}", "null") for n in range(5)))}
WIDE = {"type": "array", "items": record(("n", "int"), *((f"f{n}", "null") for n in range(200)))}
ITSELF = record(("next", "plant.Telemetry"))


def nested(depth: int) -> object:
    schema: object = "int"
    for _ in range(depth):
        schema = {"type": "array", "items": schema}
    return schema


@pytest.mark.parametrize(
    ("schema", "what"),
    [
        (NULLS, "more than 64 values for each of their bytes"),
        ({"type": "map", "values": WIDE}, "more than 64 values"),
        (HOLLOW, "more than 64 values"),
        (WIDE, "more than 64 values"),
        (ITSELF, "contains itself"),
        (nested(70), "nested more than 64 deep"),
        (record(*((f"f{n}", "int") for n in range(6_000))), "more than 5000 types"),
        ({"type": "recrod"}, "is not an Avro schema"),
        (record(("n", "plant.Missing")), "is not an Avro schema"),
        (logical("bytes", "decimal", precision=4, scale=10**9), "scale"),
        (7, "is not an Avro schema"),
    ],
)
def test_unbounded_schema_is_refused(schema: object, what: str) -> None:
    with pytest.raises(SchemaFault, match=what):
        avro.parse(json.dumps(schema))


def test_empty_union_has_no_value() -> None:
    with pytest.raises(ValueFault):
        read([], b"\0")


@pytest.mark.parametrize("text", ["", "{", '"\\ud800"', "[" * 100_000, "nul", '{"type": {}}'])
def test_malformed_schema_is_refused(text: str) -> None:
    with pytest.raises(SchemaFault):
        avro.parse(text)


def test_usual_schema_is_accepted() -> None:
    reading = record(
        ("unit", ["null", "string"]),
        ("a", ["null", "double"]),
        ("tags", nested(3)),
        ("v", "double"),
    )
    many = record(*((f"f{n}", ["null", "double"]) for n in range(500)))
    many["name"] = "Many"
    schema = record(
        ("device", "string"),
        ("readings", {"type": "array", "items": reading | {"name": "Reading"}}),
        ("others", {"type": "map", "values": ["null", many]}),
    )
    assert read(schema, b"\x02a\0\0") == {"device": "a", "readings": [], "others": {}}


LIST = record(("next", ["null", "plant.Telemetry"]))


def test_recursion_depth_is_bounded() -> None:
    assert read(LIST, b"\x02\x02\0") == {"next": {"next": {"next": None}}}
    for depth in (65, 1_000, 1_000_000):
        with pytest.raises(ValueFault) as fault:
            read(LIST, b"\x02" * depth + b"\0")
        assert fault.value.reason == UNDECODABLE


EVERYTHING = record(
    ("device", "string"),
    ("n", "long"),
    ("at", logical("long", "timestamp-millis")),
    ("local", logical("long", "local-timestamp-micros")),
    ("day", logical("int", "date")),
    ("price", logical("bytes", "decimal", precision=8, scale=2)),
    ("id", {**FIXED, "logicalType": "uuid"}),
    ("kind", {"type": "enum", "name": "E", "symbols": ["UP", "DOWN"]}),
    ("maybe", ["null", "double", {"type": "array", "items": "string"}]),
    ("more", {"type": "map", "values": ["null", "long", "string"]}),
)
SOUND = {
    "device": "press-7",
    "n": 12,
    "at": NOW,
    "local": NOW.replace(tzinfo=None),
    "day": date(2026, 9, 21),
    "price": Decimal("12.50"),
    "id": b"0" * 16,
    "kind": "UP",
    "maybe": ["a", "b"],
    "more": {"x": 1, "y": "z", "w": None},
}


def assert_strangers_bytes_are_refused(
    decode: Callable[[bytes], object], sound: bytes, dice: random.Random
) -> None:
    """Assert that hostile bytes are either read or refused with a fault."""
    refused = []
    for _ in range(2_000):
        changed = bytearray(sound)
        for _ in range(dice.randint(1, 4)):
            changed[dice.randrange(len(changed))] ^= 1 << dice.randrange(8)
        cut = bytes(changed[: dice.randint(0, len(changed))])
        for hostile in (bytes(changed), cut, dice.randbytes(dice.randint(0, 60)), sound + b"\0"):
            try:
                decode(hostile)
            except ValueFault as fault:
                refused.append(fault.reason)
    assert len(refused) > 2_000
    assert set(refused) == {UNDECODABLE}


@pytest.mark.parametrize("seed", seeds_of_today(3))
@pytest.mark.parametrize("is_recursive", [False, True])
def test_hostile_bytes_raise_only_faults(seed: int, is_recursive: bool) -> None:
    dice = random.Random(seed)
    schema = EVERYTHING
    if is_recursive:
        schema = {**schema, "fields": [*schema["fields"], LIST["fields"][0]]}
    unmarked = json.loads(json.dumps(schema).replace('"logicalType": "uuid"', '"x": "uuid"'))
    sound = written(unmarked, SOUND | {"next": None})
    decode = avro.make_decoder(avro.parse(json.dumps(schema)))
    found = decode(sound)
    assert isinstance(found, dict)
    assert found["id"] == "30303030-3030-3030-3030-303030303030"
    assert_strangers_bytes_are_refused(decode, sound, dice)


# -- a reader's schema -----------------------------------------------------------------------------


def resolved(schema: Any, reader: Any, value: object) -> object:
    """Return the value, written with one schema and read with another."""
    decode = avro.make_decoder(*(avro.parse(json.dumps(each)) for each in (schema, reader)))
    return decode(written(schema, value))


def field(name: str, type_: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": type_, **more}


def of_fields(*fields: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": "Press", "fields": list(fields), **more}


LOAD = of_fields(field("device", "string"), field("load", "long"))
SENT = {"device": "press-7", "load": 12}
CHAIN = of_fields(field("n", "int"), field("next", ["null", "Press"]))
MILLISECONDS = logical("long", "timestamp-millis")


@pytest.mark.parametrize(
    ("schema", "value", "reader", "expected"),
    [
        (
            LOAD,
            SENT,
            of_fields(field("device", "string"), field("force", "long", aliases=["load"])),
            {"device": "press-7", "force": 12},
        ),
        (
            LOAD,
            SENT,
            of_fields(field("load", "double"), field("unit", "string", default="kN")),
            {"load": 12.0, "unit": "kN"},
        ),
        (LOAD, SENT, of_fields(field("load", ["null", "long"], default=None)), {"load": 12}),
        (
            LOAD | {"name": "OldPress"},
            SENT,
            of_fields(field("load", "long"), aliases=["OldPress"]),
            {"load": 12},
        ),
        (
            of_fields(field("at", MILLISECONDS)),
            {"at": 1},
            of_fields(field("time", MILLISECONDS, aliases=["at"])),
            {"time": Timestamp(1_000_000, is_local=False)},
        ),
        (
            CHAIN,
            {"n": 1, "next": {"n": 2, "next": None}},
            of_fields(field("m", "long", aliases=["n"]), field("next", ["null", "Press"])),
            {"m": 1, "next": {"m": 2, "next": None}},
        ),
        *(
            (
                of_fields(*(field(name, "long") for name in names)),
                {"force": 1, "load": 2},
                of_fields(field("force", ["null", "long"], aliases=["load"], default=None)),
                {"force": 1},
            )
            for names in (("force", "load"), ("load", "force"))
        ),
    ],
    ids=[
        "alias",
        "default and type",
        "optional",
        "alias of record",
        "logical type",
        "recursive",
        "both names",
        "both names, alias first",
    ],
)
def test_reader_schema_resolves_values(
    schema: Any, value: object, reader: Any, expected: object
) -> None:
    assert resolved(schema, reader, value) == expected


ADD = "; add the alias or the default that is missing there"
CHANGE = "; give the field a type that takes both, or correct the sender"
STATES = {"type": "enum", "name": "State", "symbols": ["ON", "OFF"]}


def refused(schema: Any, reader: Any, value: object) -> str:
    """Return why the value, written with one schema, cannot be read with another."""
    with pytest.raises(ValueFault) as fault:
        resolved(schema, reader, value)
    assert fault.value.reason == "schema_refused"
    assert len(fault.value.detail) < 400
    begin = "the value's schema does not fit schema.reader"
    assert fault.value.detail.startswith(begin)
    return fault.value.detail.removeprefix(begin)


@pytest.mark.parametrize(
    ("reader", "why"),
    [
        (of_fields(field("force", "long")), f" (No default value for field force in Press){ADD}"),
        (of_fields(field("load", "string")), f" (Schema mismatch: long is not string){CHANGE}"),
        (of_fields(name="Other"), "; name 'Press' as an alias of record 'Other'"),
    ],
)
def test_reader_schema_must_fit(reader: Any, why: str) -> None:
    assert refused(LOAD, reader, SENT) == why


@pytest.mark.parametrize(
    ("sent", "expected", "value"),
    [
        ("string", "double", "12"),
        ("long", "int", 12),
        ("boolean", "int", True),
        (["null", "double"], "double", None),
        ("long", LOAD | {"name": "Inner"}, 12),
    ],
    ids=["text", "long", "truth", "null", "number"],
)
def test_mismatched_type_asks_for_change(sent: Any, expected: Any, value: object) -> None:
    detail = refused(of_fields(field("v", sent)), of_fields(field("v", expected)), {"v": value})
    assert detail.endswith(CHANGE)
    assert "__" not in detail


def test_inner_name_needs_an_alias() -> None:
    inner = of_fields(field("x", "long"))
    sent = of_fields(field("v", ["null", inner | {"name": "a.Old"}]))
    reader = of_fields(field("v", ["null", inner | {"name": "New"}]))
    detail = refused(sent, reader, {"v": {"x": 1}})
    assert detail == "; name 'Old' as an alias of record 'New'"


def test_missing_symbol_is_reported() -> None:
    reader = of_fields(field("v", STATES | {"symbols": ["ON"]}))
    detail = refused(of_fields(field("v", STATES)), reader, {"v": "OFF"})
    assert detail.endswith("; add the symbol there, or a default to the enum")


TAGS = {"type": "map", "values": {"type": "array", "items": "long"}}


@pytest.mark.parametrize("is_recursive", [False, True])
def test_values_do_not_share_a_default(is_recursive: bool) -> None:
    more = [field("next", ["null", "Press"], default=None)] if is_recursive else []
    reader = of_fields(field("load", "long"), field("tags", TAGS, default={"a": [1]}), *more)
    decode = avro.make_decoder(*(avro.parse(json.dumps(each)) for each in (LOAD, reader)))
    values: list[Any] = [decode(written(LOAD, SENT)) for _ in range(2)]
    values[0]["tags"]["a"].append(2)
    values[0]["tags"]["b"] = []
    assert values[1]["tags"] == {"a": [1]}


@pytest.mark.parametrize(
    ("type_", "default"),
    [
        ("bytes", "a"),
        ({"type": "fixed", "name": "Two", "size": 2}, "ab"),
        (MILLISECONDS, 5),
        (["null", MILLISECONDS], 5),
        (["long", "bytes"], "a"),
        ({"type": "array", "items": "bytes"}, ["a"]),
        ({"type": "map", "values": MILLISECONDS}, {"a": 5}),
        ({**LOAD, "name": "Inner", "fields": [field("at", MILLISECONDS)]}, {"at": 5}),
    ],
)
def test_undecoded_default_is_refused(type_: Any, default: object) -> None:
    schema = avro.parse(json.dumps(of_fields(field("v", type_, default=default))))
    with pytest.raises(SchemaFault, match="has a default for the field `v`, whose type is bytes"):
        avro.require_plain_defaults(schema)


@pytest.mark.parametrize(
    ("type_", "default"),
    [
        (["null", MILLISECONDS], None),
        (["string", "bytes"], "a"),
        ("double", 1),
        (STATES, "ON"),
        (TAGS, {"a": [1]}),
        ({"type": "array", "items": "bytes"}, []),
        (["null", LOAD | {"name": "Inner"}], {"device": "a", "load": 1, "more": 2}),
        (["null", "Press"], None),
        (logical("string", "uuid"), "a"),
    ],
)
def test_plain_defaults_are_accepted(type_: Any, default: object) -> None:
    schema = avro.parse(json.dumps(of_fields(field("v", type_, default=default))))
    avro.require_plain_defaults(schema)
    sent = avro.make_decoder(avro.parse(json.dumps(of_fields(field("w", "long")))), schema)
    assert sent(written(of_fields(field("w", "long")), {"w": 1})) == {"v": default}
