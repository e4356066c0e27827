"""Defines `Fields`, which maps the fields of an event to places in a record, and its presets.

| preset                   | places                                                     |
|--------------------------|------------------------------------------------------------|
| `plain`                  | the headers of the contract (`inorder.contract`)           |
| `cloudevents`            | the headers of CloudEvents in binary mode                  |
| `cloudevents-structured` | the attributes of CloudEvents in a JSON value              |

Without a preset, only `ts` has a place by default: `timestamp`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from inorder.contract import PRESETS, TimeUnit
from topology.records.where import TIMESTAMP, WHOLE_VALUE, Place, Where

FieldPreset = Literal["plain", "cloudevents", "cloudevents-structured"]

DecimalSign = Literal[".", ","]

PLACES: Final = ("source", "seq", "ts", "type", "epoch", "stream", "kind", "payload", "id")
"""The fields that can be mapped to a place, in the order of the header contract."""


@dataclass(frozen=True, slots=True)
class Fields:
    """The place of each field of an event, or None for a field that records do not have.

    Attributes:
        payload: The part of the value that queries read.
        id: The id by which copies of a record without a number are found.
        ts_unit: The unit of a numeric `ts`.
        ts_zone: The time zone of a `ts` that names none. If it is "", such a time is a fault.
        ts_format: The form of `ts` (`topology.records.time_forms`), or "" for numbers and ISO 8601.
        decimal: The decimal sign of numbers that are text.
        ts_optional: Whether the record's own timestamp replaces a missing `ts`, as in the header
            contract.
    """

    source: Where
    seq: Where | None = None
    ts: Where = TIMESTAMP
    type: Where | None = None
    epoch: Where | None = None
    stream: Where | None = None
    kind: Where | None = None
    payload: Where = WHOLE_VALUE
    id: Where | None = None
    ts_unit: TimeUnit = "ns"
    ts_zone: str = ""
    ts_format: str = ""
    decimal: DecimalSign = "."
    ts_optional: bool = False


def _make_preset(place: Place, names: Sequence[str]) -> Fields:
    places: dict[str, Any] = {
        field: Where(place, (name,)) for field, name in zip(PLACES, names, strict=False)
    }
    return Fields(**places, ts_optional=True)


FIELD_PRESETS: Final[dict[FieldPreset, Fields]] = {
    "plain": _make_preset("header", PRESETS["plain"][:7]),
    "cloudevents": _make_preset("header", PRESETS["cloudevents"][:7]),
    "cloudevents-structured": _make_preset(
        "payload", ["source", "sequence", "time", "type", "epoch", "streamid", "kind", "data"]
    ),
}
