"""Reads payloads for queries, from values that are not plain JSON or from a part of each value.

The setting `payload: PATH` names the part.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import orjson

from codec.values.mapped import registered_schemas
from codec.values.registered import RegisteredSchemas, strip_prefix
from codec.values.schemas import values_decoder
from topology.base.encoded import ReadEncoded
from topology.base.paths import Path
from topology.config import StreamConfig, Topology
from topology.records.payload import as_json
from topology.records.values import Decode, ValueFault, follow_path

WHOLE: Final[Path] = ()


def payload_readers(
    streams: Mapping[str, StreamConfig], tables: Mapping[str, RegisteredSchemas]
) -> dict[str, ReadEncoded]:
    """Return the readers of payloads by stream; a stream of whole JSON values needs none.

    `tables` has the schemas of input topics, by topic. Raises SchemaFault if a topic's schema file
    is not valid.
    """
    found = {}
    for name, stream in streams.items():
        mapping = stream.mapping()
        if mapping is None:
            continue
        path = mapping.payload.path
        if stream.format == "json" and stream.value_schema is None and path == WHOLE:
            continue
        decode: Decode = decode_json
        if stream.format != "json":
            registered = tables.get(stream.input)
            decode, _ = values_decoder(stream.format, stream.value_schema, registered)
        found[name] = make_reader(decode, path)
    return found


def tables_of(topology: Topology) -> dict[str, RegisteredSchemas]:
    """Return an empty table for each input topic that needs a registry."""
    topics = {stream.input for stream in topology.streams.values()}
    found = {topic: registered_schemas(topology, topic) for topic in sorted(topics)}
    return {topic: table for topic, table in found.items() if table is not None}


def decode_json(value: bytes | None) -> object:
    """Decode JSON, with or without a registry's five bytes; numbers become int or float."""
    return orjson.loads(strip_prefix(value) or b"null")


def make_reader(decode: Decode, path: Path) -> ReadEncoded:
    """Return a reader of the payload at the path; it raises ValueError for an unreadable value."""

    def read(value: bytes) -> object:
        try:
            return as_json(follow_path(decode(bytes(value)), path))
        except ValueFault as fault:
            raise ValueError(fault.detail) from None
        except RecursionError:
            raise ValueError("the value is nested too deep") from None

    return read
