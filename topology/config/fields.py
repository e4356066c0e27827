"""Defines the section that names the part of a foreign record for each field of an event."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import ValidationInfo

from topology.answer.query.zone import check_zone_name
from topology.records.mapping import FIELD_PRESETS, PLACES, FieldPreset, Fields
from topology.records.time_forms import NAMED, make_time_form
from topology.records.where import parse_where
from topology.spelling.problem import Fault, format_value, make_refusal
from topology.spelling.section import Section
from topology.spelling.values import Given, one_of

Format = Literal["json", "avro", "protobuf", "bytes"]
KeyFormat = Literal["json", "avro", "protobuf", "int64"]

Arrival = Literal["append", "timestamp", "read"]


def _check_where(value: Any, info: ValidationInfo) -> str:
    if not isinstance(value, str):
        raise make_refusal(
            f"{format_value(value)} is not text", "write a place, like payload.device"
        )
    try:
        return str(parse_where(value, info.field_name or ""))
    except ValueError as wrong:
        raise make_refusal(*str(wrong).split("; ", 1)) from None


def _check_zone(value: Any, _: ValidationInfo) -> str:
    return check_zone_name(value)


def _check_time_form(value: Any, _: ValidationInfo) -> str:
    try:
        return make_time_form(value if isinstance(value, str) else "").text
    except ValueError as wrong:
        message, remedy = str(wrong).split("; ", 1)
        raise make_refusal(f"{format_value(value)} {message}", remedy) from None


TimeFormText = Annotated[
    str, Given(_check_time_form, {"type": "string", "examples": ["%d.%m.%Y %H:%M:%S", *NAMED]})
]
WhereText = Annotated[
    str, Given(_check_where, {"type": "string", "title": "place", "examples": ["payload.device"]})
]
ZoneName = Annotated[str, Given(_check_zone, {"type": "string", "examples": ["Europe/Berlin"]})]


class FieldsConfig(Section):
    """The section that names the part of a record for each field of its event.

    It is for records without the header contract. A part is `header.NAME`, `key`, `key.PATH`,
    `payload`, `payload.PATH`, `timestamp`, `topic`, `partition` or `="text"`.
    """

    preset: Annotated[FieldPreset, one_of(FieldPreset)] | None = None
    """The places that hold unless you name another. By default only `ts: timestamp` is named."""
    source: WhereText | None = None
    """The name of the source: text or an integer."""
    seq: WhereText | None = None
    """The sequence number: an integer, or its digits."""
    ts: WhereText | None = None
    """The reported timestamp: a number, RFC 3339 text, or the record's own `timestamp`."""
    type: WhereText | None = None
    """The event type."""
    epoch: WhereText | None = None
    """The epoch of the source: an integer that rises at each restart."""
    stream: WhereText | None = None
    """The stream. By default it is the topic's only one."""
    kind: WhereText | None = None
    """The mark of heartbeats and end-of-stream markers."""
    payload: WhereText | None = None
    """The part that queries read. By default it is the whole value."""
    id: WhereText | None = None
    """The id of a record without a sequence number: text or an integer. Another record of its
    source with the same id within `reorder.id_memory` is a duplicate."""
    arrival: WhereText | None = None
    """The arrival time of a row of a file (`replay`). Records of a topic follow the stream's
    `arrival`."""

    def faults(self) -> Iterator[Fault]:
        if self.source is None and self.preset is None:
            yield Fault(("source",), "is missing", "write source: payload.NAME")

    def places(self, **times: Any) -> Fields:
        """Return the mapping that readers of records use; `times` says how times are written."""
        texts = {name: getattr(self, name) for name in PLACES}
        named: dict[str, Any] = {name: parse_where(text) for name, text in texts.items() if text}
        base = FIELD_PRESETS[self.preset] if self.preset else Fields(named["source"])
        optional = base.ts_optional and "ts" not in named
        return replace(base, **named, ts_optional=optional, **times)
