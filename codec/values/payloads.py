"""What queries read of values that are no plain JSON, or of a part of them (`payload: PATH`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import orjson

from codec.values.mapped import registered_schemas
from codec.values.registered import RegisteredSchemas, without_prefix
from codec.values.schemas import values_decoder
from topology.config import StreamConfig, Topology
from topology.model.encoded import ReadEncoded
from topology.wire.payload import as_json
from topology.wire.values import Decode, ValueFault, walked
from topology.wire.where import Path

WHOLE: Final[Path] = ()


def payload_readers(
    streams: Mapping[str, StreamConfig], tables: Mapping[str, RegisteredSchemas]
) -> dict[str, ReadEncoded]:
    """By stream, what reads its payloads; none for streams whose values are JSON as a whole.
    `tables`: the schemas of input topics, by topic. SchemaFault where the file of one is none."""
    found = {}
    for name, stream in streams.items():
        mapping = stream.mapping()
        if mapping is None:
            continue
        path = mapping.payload.path
        if stream.format == "json" and stream.value_schema is None and path == WHOLE:
            continue
        decode: Decode = plain_json
        if stream.format != "json":
            registered = tables.get(stream.input)
            decode, _ = values_decoder(stream.format, stream.value_schema, registered)
        found[name] = reading(decode, path)
    return found


def tables_of(topology: Topology) -> dict[str, RegisteredSchemas]:
    """An empty table for each input topic that is read by a registry."""
    topics = {stream.input for stream in topology.streams.values()}
    found = {topic: registered_schemas(topology, topic) for topic in sorted(topics)}
    return {topic: table for topic, table in found.items() if table is not None}


def plain_json(value: bytes | None) -> object:
    """JSON with or without a registry's five bytes, its numbers as queries have them."""
    return orjson.loads(without_prefix(value) or b"null")


def reading(decode: Decode, path: Path) -> ReadEncoded:
    """What reads the payload at the path; ValueError where the value cannot be read."""

    def read(value: bytes) -> object:
        try:
            return as_json(walked(decode(bytes(value)), path))
        except ValueFault as fault:
            raise ValueError(fault.detail) from None
        except RecursionError:
            raise ValueError("the value is nested too deep") from None

    return read
