"""Chooses decoders of values and keys by their format and their schema, from a file or a registry.

The libraries are extras, so each is imported when a schema of its format is read.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from codec.values import int64, json, raw
from codec.values.registered import SCHEMA_REFUSED, Decoders, RegisteredSchemas, strip_prefix
from codec.values.schema_fault import SchemaFault
from topology.base.paths import Path as FieldPath
from topology.config import SchemaConfig
from topology.records.values import Decode, Pick, Picking, ValueFault

REGISTERED: Final = frozenset({"avro", "protobuf"})
"""Formats that cannot be read without their schema."""


def values_decoder(
    format_: str, schema: SchemaConfig | None, registered: RegisteredSchemas | None = None
) -> tuple[Decode, Picking | None]:
    """Return two decoders of the format: for whole values, and for some fields (or None).

    `registered` is the table of the registry's schemas, if the stream uses a registry. Raises
    SchemaFault if a schema file is missing or not valid.
    """
    if format_ == "json":
        if schema is None:
            return json.decode, json.make_pick
        return _decode_prefixed_json, _make_prefixed_pick
    if format_ == "bytes":
        return raw.decode, None
    if registered is not None:
        return registered.decode, None
    if schema is None or schema.file is None:
        raise SchemaFault(f"is missing for {format_} values; name its file or a registry")
    return _make_file_decoder(format_, Path(schema.file), schema), None


def keys_decoder(format_: str | None, registered: RegisteredSchemas | None = None) -> Decode | None:
    """Return a decoder of keys in the format, or None if keys are text."""
    if format_ in REGISTERED and registered is not None:
        return registered.decode_key
    return {"json": json.decode, "int64": int64.decode}.get(format_ or "")


def registered_decoders(
    kind: str, schema: str, referred: Sequence[str], reader: str | None = None
) -> Decoders:
    """Return the decoders by a registry's schema; they decode the bytes after the five.

    `kind` is the registry's name for the schema's type. Protobuf schemas are serialized, in base64.
    `reader` is the text of the Avro schema to which values are resolved. Raises SchemaFault if a
    schema is not valid.
    """
    if reader is None or kind != "AVRO":
        plain = _make_decoder(kind, schema, referred)
        return Decoders(plain if reader is None else _refuse_reader, plain)
    from codec.values import avro

    parsed = avro.parse(schema, referred)
    return Decoders(avro.make_decoder(parsed, avro.parse(reader)), avro.make_decoder(parsed))


def _refuse_reader(_: bytes | None) -> object:
    raise ValueFault(
        SCHEMA_REFUSED, "schema.reader is for Avro, but the value's schema is not; leave it out"
    )


def _make_decoder(kind: str, schema: str, referred: Sequence[str]) -> Decode:
    if kind == "AVRO":
        from codec.values import avro

        return avro.make_decoder(avro.parse(schema, referred))
    if kind == "PROTOBUF":
        from codec.values import protobuf

        try:
            first, *others = [base64.b64decode(each, validate=True) for each in (schema, *referred)]
        except binascii.Error:
            raise SchemaFault(
                "is Protobuf as text; use a registry that supports ?format=serialized, or"
                " schema: {file: …, message: …} with a file from protoc"
            ) from None
        return protobuf.make_file_decoder(first, others)
    if kind == "JSON":
        return json.decode
    raise SchemaFault(f"is of an unknown type, {kind[:20]!r}")


def _make_file_decoder(format_: str, file: Path, schema: SchemaConfig) -> Decode:
    try:
        content = file.read_bytes()
    except OSError as error:
        raise SchemaFault(f"{file}: {error.strerror}; name the file of the schema") from None
    try:
        if format_ == "avro":
            from codec.values import avro

            reader = None if schema.reader is None else avro.parse(schema.reader)
            return avro.make_decoder(avro.parse(content.decode("utf-8", "replace")), reader)
        from codec.values import protobuf

        return protobuf.make_message_decoder(content, schema.message or "")
    except SchemaFault as fault:
        raise SchemaFault(f"{file} {fault}") from None


def _decode_prefixed_json(value: bytes | None) -> object:
    return json.decode(strip_prefix(value))


def _make_prefixed_pick(paths: Sequence[FieldPath]) -> Pick:
    pick = json.make_pick(paths)
    return lambda value: pick(strip_prefix(value))
