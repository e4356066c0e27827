"""`format` and `schema` of a stream: an example table of what is taken, and of what is refused."""

from __future__ import annotations

import pytest

from topology.config import StreamConfig, TopologyError, parse

FIELDS = "fields: {source: payload.d, seq: payload.n}"
REGISTRY = "registry: 'http://r:8081'"


def stream_of(lines: str) -> StreamConfig:
    text = "".join(f"\n    {line}" for line in ("input: t", FIELDS, *lines.split("; ")))
    return parse(f"streams:\n  a:{text}\n").streams["a"]


@pytest.mark.parametrize(
    "lines",
    [
        "format: json",
        "format: bytes",
        f"format: json; schema: {{{REGISTRY}}}",
        f"format: avro; schema: {{{REGISTRY}, subjects: [t-value]}}",
        "format: avro; schema: {file: press.avsc}",
        "format: protobuf; schema: {file: plant.desc, message: plant.Telemetry}",
        f"key_format: avro; schema: {{{REGISTRY}, subjects: [t-key]}}",
        "key_format: int64; format: avro; schema: {file: press.avsc}",
    ],
)
def test_what_is_taken(lines: str) -> None:
    assert stream_of(lines).mapping() is not None


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("format: avro", "write schema: {registry: http://HOST:8081, subjects: [t-value]}"),
        ("format: xml", "`xml` is not known here"),
        ("key_format: protobuf", "streams.a.schema (line 2): is missing"),
        (f"format: avro; schema: {{{REGISTRY}}}", "write subjects: [t-value]"),
        ("format: avro; schema: {}", "write either registry: URL or file: PATH"),
        (
            f"format: avro; schema: {{{REGISTRY}, subjects: [t], file: a.avsc}}",
            "write either registry: URL or file: PATH",
        ),
        ("format: protobuf; schema: {file: a.desc}", "write the message, like plant.Telemetry"),
        ("format: avro; schema: {file: a.avsc, message: A}", "for Protobuf only; leave it out"),
        ("schema: {file: a.avsc}", "has no effect on JSON"),
        ("format: avro; key_format: avro; schema: {file: a.avsc}", "the file is for values only"),
        ("format: avro; schema: {registry: 'r:8081'}", "is not the URL of a schema registry"),
        (
            "format: avro; schema: {registry: 'http://me:secret@r'}",
            "USER and INORDER_REGISTRY_PASSWORD",
        ),
        (f"format: avro; schema: {{{REGISTRY}, subjects: t}}", "their names in the registry"),
        (f"format: bytes; schema: {{{REGISTRY}}}", "has no effect on bytes"),
    ],
)
def test_what_is_refused_and_what_to_write(lines: str, said: str) -> None:
    with pytest.raises(TopologyError) as refused:
        stream_of(lines)
    assert said in str(refused.value)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("line", ["format: avro", f"schema: {{{REGISTRY}}}"])
def test_without_a_mapping_nothing_of_a_value_is_read(line: str) -> None:
    with pytest.raises(TopologyError, match="add `fields`"):
        parse(f"streams:\n  a:\n    {line}\n")


def test_streams_of_one_input_have_one_schema() -> None:
    one = f"{{input: t, {FIELDS[:-1]}, stream: payload.s}}, format: avro, schema: {{file: A}}}}"
    with pytest.raises(TopologyError, match="reads `t` with another mapping or format"):
        parse(f"streams: {{a: {one.replace('A', 'a')}, b: {one.replace('A', 'b')}}}")


def test_a_file_is_sought_beside_the_topology_file() -> None:
    stream = stream_of("format: avro; schema: {file: press.avsc}")
    located = stream.with_schema_from("/etc/inorder").value_schema
    assert located is not None
    assert located.file == "/etc/inorder/press.avsc"
    absolute = stream_of("format: avro; schema: {file: /press.avsc}")
    assert absolute.with_schema_from("/etc") is absolute
