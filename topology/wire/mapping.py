"""Which places of a record bear the fields of an event: `Fields`, and the presets to begin from.

| preset                   | what it names                                              |
|--------------------------|------------------------------------------------------------|
| `plain`                  | the headers of the contract (`inorder.contract`)           |
| `cloudevents`            | the headers of CloudEvents in binary mode                  |
| `cloudevents-structured` | the attributes of CloudEvents in a JSON value              |

Without a preset nothing is inherited but `ts: timestamp`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from inorder.contract import PRESETS, TimeUnit
from topology.wire.where import TIMESTAMP, WHOLE_VALUE, Where

FieldPreset = Literal["plain", "cloudevents", "cloudevents-structured"]


@dataclass(frozen=True, slots=True)
class Fields:
    """Where each field is. None: no record has it. `payload`: what queries read. `ts_unit`: the
    unit of a `ts` that is a number; `ts_zone`: the time zone of one that names none, "" refuses it.
    `ts_optional`: without a `ts` the record's own timestamp counts, as in the header contract."""

    source: Where
    seq: Where | None = None
    ts: Where = TIMESTAMP
    type: Where | None = None
    epoch: Where | None = None
    stream: Where | None = None
    kind: Where | None = None
    payload: Where = WHOLE_VALUE
    ts_unit: TimeUnit = "ns"
    ts_zone: str = ""
    ts_optional: bool = False


def _of_headers(preset: Literal["plain", "cloudevents"]) -> Fields:
    names = PRESETS[preset]
    source, seq, ts, type_, epoch, stream, kind = [Where("header", (name,)) for name in names[:7]]
    return Fields(source, seq, ts, type_, epoch, stream, kind, ts_optional=True)


def _attribute(name: str) -> Where:
    return Where("payload", (name,))


FIELD_PRESETS: Final[dict[FieldPreset, Fields]] = {
    "plain": _of_headers("plain"),
    "cloudevents": _of_headers("cloudevents"),
    "cloudevents-structured": Fields(
        _attribute("source"),
        _attribute("sequence"),
        _attribute("time"),
        _attribute("type"),
        _attribute("epoch"),
        _attribute("streamid"),
        _attribute("kind"),
        _attribute("data"),
        ts_optional=True,
    ),
}
