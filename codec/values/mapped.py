"""Creates the reader of a foreign input topic, its table of schemas, and the codec's short path."""

from __future__ import annotations

from typing import Final

from codec.face import MappedValues
from codec.values.json import JsonPick
from codec.values.registered import RegisteredSchemas
from codec.values.schemas import REGISTERED, keys_decoder, values_decoder
from topology.config import Topology
from topology.records.field_reader import FieldReader


def registered_schemas(topology: Topology, topic: str) -> RegisteredSchemas | None:
    """Return an empty table for the topic's schemas; None if the topic needs no registry."""
    stream = next(each for each in topology.streams.values() if each.input == topic)
    schema = stream.value_schema
    if schema is None or schema.registry is None or stream.fields is None:
        return None
    if not REGISTERED & {stream.format, stream.key_format}:
        return None
    return RegisteredSchemas(
        schema.registry,
        schema.subjects,
        reader=schema.reader,
        in_values=stream.format in REGISTERED,
        in_keys=stream.key_format in REGISTERED,
    )


def field_reader(
    topology: Topology, topic: str, registered: RegisteredSchemas | None = None
) -> FieldReader | None:
    """Return the reader of the topic; None if its records have the header contract.

    `registered` is the table that `registered_schemas` returns; its schemas decode values once it
    is filled. Raises StopIteration if no stream reads the topic, and SchemaFault if its schema file
    is not valid.
    """
    stream = next(each for each in topology.streams.values() if each.input == topic)
    mapping = stream.mapping()
    if mapping is None:
        return None
    decode, pickings = values_decoder(stream.format, stream.value_schema, registered)
    return FieldReader(
        mapping,
        decode,
        pickings,
        decode_key=keys_decoder(stream.key_format, registered),
        reading=topology.reading(topic),
        topic=topic,
    )


SHORT: Final = frozenset({"source", "seq", "epoch", "ts", "type"})
"""Fields that the short path reads."""


def find_short_path(reader: FieldReader) -> MappedValues | None:
    """Return the codec's short path for this reader, or None if it needs the general path.

    The reader needs the general path for fields outside the value, except a source that is the key.
    It also needs the general path for mapped streams or kinds, for records without numbers, and for
    times in a form of their own.
    """
    fields = reader.fields
    is_record = fields.ts.place == "timestamp"
    is_key = fields.source.place == "key" and not reader.reads_keys
    inside = {"payload"} | ({"timestamp"} if is_record else set())
    if any(
        where.place not in inside and not (is_key and name == "source")
        for name, where in reader.places.items()
    ):
        return None
    if (
        reader.reading.by_time
        or fields.ts_optional
        or fields.ts_format
        or not reader.places.keys() <= SHORT
    ):
        return None
    structured = reader.pick.structured if isinstance(reader.pick, JsonPick) else None
    names = [name for name, where in reader.places.items() if where.place == "payload"]
    return MappedValues(
        structured or reader.pick,
        structured is not None,
        tuple(names),
        is_record,
        is_key,
        reader.reading.unnamed,
        () if structured is None else tuple([str(reader.places[name].path[0]) for name in names]),
    )
