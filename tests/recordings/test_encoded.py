"""Examples: Avro and Protobuf files are read; damaged and too large ones are refused."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import fastavro
import pytest

from codec.values import avro
from recordings import encoded
from recordings.encoded import FileEncoding
from recordings.file import InputError
from recordings.values import value_rows
from tests.codec.values.test_avro import written
from topology.records.values import Timestamp

SCHEMA: Mapping[str, Any] = {
    "type": "record",
    "name": "Telemetry",
    "fields": [
        {"name": "device", "type": "string"},
        {"name": "n", "type": "long"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
}
ROWS = [{"device": f"press-{n % 3}", "n": n, "at": 1_700_000_000_000 + n} for n in range(200)]
AS_READ = [{**row, "at": Timestamp(int(str(row["at"])) * 1_000_000)} for row in ROWS]
BY_SCHEMA = FileEncoding("avro", avro.make_decoder(avro.parse(json.dumps(SCHEMA))))
IN_FILE = FileEncoding("avro", None)
in_avro = partial(written, SCHEMA)


def container(codec: str = "null", rows: Sequence[Mapping[str, Any]] = ROWS, **more: Any) -> bytes:
    stream = io.BytesIO()
    schema = more.pop("schema", SCHEMA)
    fastavro.writer(stream, fastavro.parse_schema(dict(schema)), rows, codec, **more)
    return stream.getvalue()


def delimited(*values: bytes) -> bytes:
    return b"".join(_varint(len(value)) + value for value in values)


def _varint(number: int) -> bytes:
    low, rest = number & 0x7F, number >> 7
    return bytes([low | 0x80]) + _varint(rest) if rest else bytes([low])


def read(content: bytes, encoding: FileEncoding | None = None) -> list[Any]:
    return list(value_rows("-", io.BytesIO(content), encoding=encoding))


@pytest.mark.parametrize("codec", ["null", "deflate", "snappy"])
def test_container_has_its_schema(codec: str) -> None:
    content = container(codec, sync_interval=500)
    for encoding in (None, IN_FILE, BY_SCHEMA):
        assert [row.value for row in read(content, encoding)] == AS_READ


def test_delimited_values_keep_bytes() -> None:
    values = [in_avro(row) for row in ROWS]
    rows = read(delimited(*values), BY_SCHEMA)
    assert [row.value for row in rows] == AS_READ
    assert [row.in_bytes(row.payload()) for row in rows] == values


def test_bad_value_is_a_fault() -> None:
    bad, good = read(delimited(b"\xff\xff", in_avro(ROWS[0])), BY_SCHEMA)
    assert bad.fault.reason == "value_undecodable"
    assert (good.number, good.value) == (2, AS_READ[0])


def test_value_must_be_a_record() -> None:
    content = container(rows=[7], schema={"type": "long"})  # type: ignore[list-item]
    (row,) = read(content)
    assert "not a record" in row.fault.detail


@pytest.mark.parametrize(
    ("content", "encoding", "words"),
    [
        (b"\x05ab", BY_SCHEMA, "value 1 does not have its stated length of 5 bytes"),
        (b"\xff" * 20, BY_SCHEMA, "value 1 does not have its stated"),
        (
            b'{"a": 1}\n',
            IN_FILE,
            "is not an Avro container file; for length-delimited Avro values add",
        ),
        (container()[:40], None, "its header ends too early"),
        (container()[:-5], None, "block 1 ends too early"),
        (container()[:-16] + bytes(16), None, "block 1 ends too early"),
        (container().replace(b"null", b"nuII"), None, "an Avro file needs a schema and one of"),
        (container().replace(b'"record"', b'"rec rd"'), None, "its schema is not an Avro schema"),
        (
            container(rows=[None] * 9, schema={"type": "null"}),  # type: ignore[list-item]
            None,
            "more values than bytes",
        ),
    ],
    ids=lambda given: given if isinstance(given, str) else "",  # A container has random bytes.
)
def test_damaged_file_is_refused(content: bytes, encoding: FileEncoding | None, words: str) -> None:
    with pytest.raises(InputError, match=words):
        read(content, encoding)


@pytest.mark.parametrize("codec", ["null", "deflate", "snappy"])
def test_huge_block_is_refused(monkeypatch: pytest.MonkeyPatch, codec: str) -> None:
    monkeypatch.setattr(encoded, "MAX_BLOCK_BYTES", 10_000)
    rows = [{**ROWS[0], "device": "a" * 20_000}]
    with pytest.raises(InputError, match="10000"):
        read(container(codec, rows))


@pytest.mark.parametrize("length", [3, 100, 1_000])
def test_random_bytes_cause_no_crash(length: int) -> None:
    for encoding in (BY_SCHEMA, IN_FILE):
        for content in (os.urandom(length), b"Obj\x01" + os.urandom(length)):
            try:
                rows = read(content, encoding)
            except InputError:
                continue
            assert all(row.fault or isinstance(row.value, dict) for row in rows)
