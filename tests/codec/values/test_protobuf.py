"""Examples: decoded Protobuf messages, and faults in place of exceptions for hostile bytes."""

from __future__ import annotations

import random
from typing import Any

import pytest

from codec.values import protobuf
from codec.values.schema_fault import SchemaFault
from tests.codec.values.protobufs import descriptor_set, file_descriptor, message_class
from tests.codec.values.test_avro import assert_strangers_bytes_are_refused
from tests.recordings.test_encoded import delimited
from tests.seeds import seeds_of_today
from topology.records.values import UNDECODABLE, Timestamp, ValueFault

Telemetry = message_class()
DECODE = protobuf.make_message_decoder(descriptor_set(), "plant.Telemetry")
ZERO = {"device": "", "n": 0, "kind": "READING", "value": 0.0, "raw": b"", "more": [], "names": {}}
ZERO |= {"nested": []}


def full() -> Any:
    message = Telemetry(device="press-7", n=2**62 + 1, kind=1, boot=0, value=0.5, raw=b"\xff")
    message.at.seconds, message.at.nanos = 1_790_000_000, 7
    message.more.extend([1.0, 2.0])
    message.names[3] = "three"
    message.maybe.value = 0
    message.inner.device = "inner"
    message.nested.add(word="w")
    return message


def test_message_is_decoded() -> None:
    assert DECODE(full().SerializeToString()) == {
        "device": "press-7",
        "n": 2**62 + 1,
        "at": Timestamp(1_790_000_000_000_000_007),
        "kind": "STATUS",
        "boot": 0,
        "value": 0.5,
        "raw": b"\xff",
        "more": [1.0, 2.0],
        "names": {"3": "three"},
        "maybe": 0,
        "inner": ZERO | {"device": "inner"},
        "nested": [{"word": "w"}],
    }


def test_unset_scalar_is_zero() -> None:
    assert DECODE(b"") == ZERO
    assert DECODE(None) is None


def test_unknown_symbol_is_its_number() -> None:
    assert DECODE(Telemetry(kind=9).SerializeToString()) == ZERO | {"kind": 9}


def test_google_imports_are_optional() -> None:
    decode = protobuf.make_message_decoder(descriptor_set(with_imports=False), "plant.Telemetry")
    assert decode(full().SerializeToString()) == DECODE(full().SerializeToString())


@pytest.mark.parametrize(
    ("prefix", "expected"),
    [
        (b"\0", "press-7"),
        (b"\x02\0", "press-7"),
        (b"\x04\0\x02", None),  # Telemetry.Nested, where this number is another field
    ],
)
def test_prefix_selects_the_message(prefix: bytes, expected: str | None) -> None:
    decode = protobuf.make_file_decoder(file_descriptor().SerializeToString(), [])
    found = decode(prefix + Telemetry(device="press-7").SerializeToString())
    assert isinstance(found, dict)
    assert found.get("device") == expected


@pytest.mark.parametrize(
    "hostile", [b"", b"\x02", b"\x02\x7e", b"\x01", b"\xff" * 9, b"\x02\x01", b"\x40" + b"\0" * 40]
)
def test_bad_message_index_is_refused(hostile: bytes) -> None:
    decode = protobuf.make_file_decoder(file_descriptor().SerializeToString(), [])
    with pytest.raises(ValueFault) as fault:
        decode(hostile)
    assert fault.value.reason == UNDECODABLE


def test_bad_schema_is_refused() -> None:
    with pytest.raises(SchemaFault, match="not a descriptor set"):
        protobuf.make_message_decoder(b"syntax = 'proto3';", "plant.Telemetry")
    with pytest.raises(SchemaFault, match=r"no message `Telemetry`; it has .*plant.Telemetry"):
        protobuf.make_message_decoder(descriptor_set(), "Telemetry")
    with pytest.raises(SchemaFault, match="not a Protobuf schema"):
        protobuf.make_file_decoder(b"\xff\xff", [])
    lonely = file_descriptor()
    lonely.dependency.append("other.proto")
    with pytest.raises(SchemaFault, match="not a Protobuf schema"):
        protobuf.make_file_decoder(lonely.SerializeToString(), [])


def test_message_depth_is_bounded() -> None:
    value = b""
    for _ in range(200):
        value = b"\x5a" + delimited(value)
    with pytest.raises(ValueFault):
        DECODE(value)


@pytest.mark.parametrize("seed", seeds_of_today(3))
def test_hostile_bytes_raise_only_faults(seed: int) -> None:
    decode = protobuf.make_file_decoder(file_descriptor().SerializeToString(), [])
    sound = b"\0" + full().SerializeToString()
    assert_strangers_bytes_are_refused(decode, sound, random.Random(seed))
