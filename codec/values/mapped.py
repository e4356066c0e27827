"""The reader of a foreign input topic: what its mapping, its format and its streams make of it."""

from __future__ import annotations

from typing import Final

from codec.values import int64, json
from topology.config import Topology
from topology.fields.values import Decode, Picking
from topology.wire.field_reader import FieldReader

VALUES: Final[dict[str, tuple[Decode, Picking | None]]] = {"json": (json.decode, json.picking)}
KEYS: Final[dict[str, Decode]] = {"json": json.decode, "int64": int64.decode}


def field_reader(topology: Topology, topic: str) -> FieldReader | None:
    """None where the topic's records are of the header contract. StopIteration if no stream reads
    it."""
    streams = {name: each for name, each in topology.streams.items() if each.input == topic}
    stream = next(iter(streams.values()))
    mapping = stream.mapping()
    if mapping is None:
        return None
    decode, pickings = VALUES[stream.format]
    return FieldReader(
        mapping,
        decode,
        pickings,
        decode_key=None if stream.key_format is None else KEYS[stream.key_format],
        stream=next(iter(streams)) if len(streams) == 1 else topology.unnamed_stream,
        by_time=[name for name, each in streams.items() if not each.reorder.numbered],
        topic=topic,
    )
