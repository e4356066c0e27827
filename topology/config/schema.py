"""Where the schema of a foreign topic's values is: a file, or a schema registry."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Final
from urllib.parse import urlsplit

from pydantic import ValidationInfo

from topology.spelling.problem import Fault, refused, shown
from topology.spelling.section import Section
from topology.spelling.values import Given, text

if TYPE_CHECKING:
    from topology.config.stream import StreamConfig

OF_A_SCHEMA: Final = frozenset({"avro", "protobuf"})
"""Formats that cannot be read without one."""


def _registry(value: Any, _: ValidationInfo) -> str:
    try:
        parts = urlsplit(value)
        is_url = parts.scheme in {"http", "https"} and parts.hostname is not None
    except (ValueError, TypeError, AttributeError):
        is_url = False
    if not is_url:
        raise refused("is no URL of a schema registry", "write it like http://registry:8081")
    if parts.username or parts.password:
        remedy = "set INORDER_REGISTRY_USER and INORDER_REGISTRY_PASSWORD"
        raise refused("holds a name or a password, which a file should not", remedy)
    return str(value).rstrip("/")


def _subjects(value: Any, _: ValidationInfo) -> tuple[str, ...]:
    named = isinstance(value, list | tuple) and all(isinstance(one, str) and one for one in value)
    if not named or not value:
        remedy = "write the registry's names of them, like [telemetry-value]"
        raise refused(f"{shown(value)} is no list of subjects", remedy)
    return tuple(value)


FilePath = Annotated[str, text(r".{1,4096}", "a path", "write the path of a file")]
MessageName = Annotated[
    str, text(r"[A-Za-z_][\w.]{0,999}", "a message", "write its name, like plant.Telemetry")
]


class SchemaConfig(Section):
    """The schema of values: `registry` and `subjects`, or a `file`, with `message` for Protobuf."""

    registry: Annotated[str, Given(_registry, {"type": "string"})] | None = None
    """The URL of a schema registry. Values then begin with five bytes that name the schema."""
    subjects: Annotated[tuple[str, ...], Given(_subjects, {"type": "array"})] = ()
    """The subjects whose schemas are accepted for values and keys. A value of another subject is a
    dead letter."""
    file: FilePath | None = None
    """A file with an Avro schema in JSON, or with the output of `protoc --include_imports
    --descriptor_set_out`. Its path is relative to the topology file. Values then begin without the
    five bytes of a registry."""
    message: MessageName | None = None
    """The Protobuf message type of the values, like plant.Telemetry."""


def schema_faults(stream: StreamConfig) -> Iterator[Fault]:
    """Yield what does not fit a schema, in one stream."""
    schema, formats = stream.value_schema, {stream.format, stream.key_format}
    is_needed = bool(formats & OF_A_SCHEMA)
    if stream.fields is None:
        if schema is not None or stream.format != "json":
            key = "schema" if schema is not None else "format"
            remedy = "add `fields`; by the header contract nothing of a value is read"
            yield Fault((key,), "is of a mapping, and there is none", remedy)
    elif schema is not None:
        yield from _schema_faults(stream, schema, is_needed=is_needed)
        if "bytes" in formats and not is_needed:
            yield Fault(("schema",), "is of no use to bytes", "leave it out")
    elif is_needed:
        subject = f"[{stream.input or 'TOPIC'}-value]"
        remedy = f"write schema: {{registry: http://HOST:8081, subjects: {subject}}}, or a file"
        yield Fault(("schema",), f"is missing, and values are {stream.format}", remedy)


def _schema_faults(
    stream: StreamConfig, schema: SchemaConfig, *, is_needed: bool
) -> Iterator[Fault]:
    if (schema.registry is None) == (schema.file is None):
        yield Fault(("schema",), "names not one place", "write either registry: URL or file: PATH")
    elif schema.file is not None:
        yield from _file_faults(stream, schema)
    elif is_needed and not schema.subjects:
        remedy = f"write subjects: [{stream.input}-value], or what the registry calls it"
        yield Fault(("schema", "subjects"), "is missing: who sends could name any schema", remedy)


def _file_faults(stream: StreamConfig, schema: SchemaConfig) -> Iterator[Fault]:
    if stream.format == "json":
        yield Fault(("schema", "file"), "is of no use to JSON", "leave it out")
    if stream.key_format in OF_A_SCHEMA:
        remedy = "write key_format: json or int64, or a registry"
        yield Fault(("key_format",), "needs a registry: the file is that of values", remedy)
    if stream.format == "protobuf" and schema.message is None:
        yield Fault(("schema", "message"), "is missing", "write the message, like plant.Telemetry")
    if stream.format == "avro" and schema.message is not None:
        yield Fault(("schema", "message"), "is of Protobuf", "leave it out")
