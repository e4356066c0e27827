"""Turns a row of a recording into the record that publishes it.

A row is a mapping, a line of JSON, or an `Event`. The field `source` is required. The fields `seq`,
`ts`, `arrival`, `type`, `stream`, `epoch`, `payload` and `kind` are optional:

* Without `ts`, the arrival time is used. Without both, the record has no `ts` header, and the
  broker's timestamp counts.
* Without `seq`, a row is valid only in a stream that is ordered by time.
* Integers may be given as text, as in CSV. `ts` is in the header's unit. If that is not ns,
  RFC 3339 is accepted too. `arrival` is in ns.
* The payload is written as JSON, but the `value` of an Event is written unchanged if it is bytes.

Unknown streams and implausible times are detected only by the stage that reads the topic.
"""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import orjson

from inorder import rfc3339
from inorder.contract import DEFAULT_STREAM, MAX_EPOCH, MAX_INT64, MAX_SEQ, MIN_INT64
from topology.base.event import BYE, DATA, HEARTBEAT, NO_EPOCH, Event
from topology.spelling.values import source_name_fault

Row = Mapping[str, Any]
Recorded = Row | Event | bytes | str

_INTEGER: Final = re.compile(r"-?[0-9]{1,19}", re.ASCII)
_KINDS: Final = (DATA, HEARTBEAT, BYE)


class Record(NamedTuple):
    """A record to publish; None means that a field is absent."""

    source: str
    seq: int | None
    ts_ns: int | None
    arrival_ns: int | None
    epoch: int | None
    stream: str
    type: str
    kind: str
    value: bytes | None


class ClockRow(NamedTuple):
    """A row with a clock reading, which is not an event and belongs in another topic."""

    source: str


@dataclass(frozen=True, slots=True)
class Malformed:
    """A row that cannot be published; `row` is its number in the recording, from 1."""

    row: int
    reason: str
    detail: str


class _Fault(Exception):
    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


def record_of(
    recorded: Recorded,
    row: int,
    unnumbered: Container[str] = (),
    unit_ns: int = 1,
    unnamed: str = DEFAULT_STREAM,
) -> Record | ClockRow | Malformed:
    """Return the record that publishes `recorded`, row number `row` of its recording.

    Returns a ClockRow for a clock reading, and Malformed for a row that cannot be published.
    `unnumbered` has the streams whose rows need no sequence number, and `unit_ns` is the unit of
    `ts`. `unnamed` is the stream of a row that names none.
    """
    try:
        if isinstance(recorded, Event):
            return _record_from_event(recorded, unnumbered)
        mapping = recorded if isinstance(recorded, Mapping) else _parse(recorded)
        if "clock" in mapping:
            return ClockRow(_text(mapping, "clock", ""))
        return _record_from_row(mapping, unnumbered, unit_ns, unnamed)
    except _Fault as fault:
        return Malformed(row, fault.reason, str(fault))


def _parse(line: bytes | str) -> Row:
    try:
        row = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise _Fault("json", f"the line is not JSON: {error}") from error
    if not isinstance(row, dict):
        raise _Fault("json", f"the line is a {type(row).__name__}, not an object")
    return row


def _record_from_row(row: Row, unnumbered: Container[str], unit_ns: int, unnamed: str) -> Record:
    source = row.get("source")
    if fault := source_name_fault(source):
        raise _Fault("source", f"{fault}; every row needs a source")
    assert isinstance(source, str)
    seq = _integer(row, "seq", 0, MAX_SEQ)
    stream = _text(row, "stream", "") or unnamed
    if seq is None and stream not in unnumbered:
        raise _Fault(
            "seq",
            f"there is no seq; rows of stream {_shorten(stream)} need a sequence number, unless the"
            " given topology file has reorder: {without_seq: by_time} or {rule: time} for it",
        )
    arrival_ns = _integer(row, "arrival")
    ts_ns = _time_ns(row, "ts", unit_ns)
    kind = _text(row, "kind", DATA)
    if kind not in _KINDS:
        raise _Fault(
            "kind", f"kind {kind!r} is unknown; write {HEARTBEAT} or {BYE}, or leave it out"
        )
    return Record(
        source,
        seq,
        arrival_ns if ts_ns is None else ts_ns,
        ts_ns if arrival_ns is None else arrival_ns,
        _integer(row, "epoch", 0, MAX_EPOCH),
        stream,
        _text(row, "type", ""),
        kind,
        _json(row.get("payload")) if kind == DATA else None,
    )


def _record_from_event(event: Event, unnumbered: Container[str]) -> Record:
    if event.kind not in _KINDS:
        raise _Fault("kind", f"an event of kind {event.kind!r} cannot be published")
    if fault := source_name_fault(event.source):
        raise _Fault("source", fault)
    # In such a stream, a row without a number has its place in the file instead, below 0.
    is_numbered = event.seq >= 0 or event.stream not in unnumbered
    if is_numbered and not 0 <= event.seq <= MAX_SEQ:
        raise _Fault("seq", f"seq {event.seq} is not in 0..{MAX_SEQ}")
    value = event.value if isinstance(event.value, bytes) else _json(event.value)
    return Record(
        event.source,
        event.seq if is_numbered else None,
        event.ts_ns,
        event.arrival_ns,
        None if event.epoch == NO_EPOCH else event.epoch,
        event.stream or DEFAULT_STREAM,
        event.type,
        event.kind,
        value if event.kind == DATA else None,
    )


def _integer(row: Row, name: str, low: int = -MAX_SEQ - 1, high: int = MAX_SEQ) -> int | None:
    value = row.get(name)
    if value is None or value == "":
        return None
    if isinstance(value, str) and _INTEGER.fullmatch(value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise _Fault(name, f"{name} {_shorten(value)} is not a whole number in {low}..{high}")
    return value


def _time_ns(row: Row, name: str, unit_ns: int) -> int | None:
    value = row.get(name)
    is_ascii = isinstance(value, str) and value.isascii() and unit_ns != 1
    instant_ns = rfc3339.parse_ns(str(value).encode()) if is_ascii else None
    if instant_ns is not None and MIN_INT64 <= instant_ns <= MAX_INT64:
        return instant_ns
    amount = _integer(row, name, -(-MIN_INT64 // unit_ns), MAX_INT64 // unit_ns)
    return None if amount is None else amount * unit_ns


def _text(row: Row, name: str, default: str) -> str:
    value = row.get(name)
    if value is None:
        return default
    if not isinstance(value, str):
        raise _Fault(name, f"{name} {_shorten(value)} is not text")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise _Fault(name, f"{name} {_shorten(value)} is not Unicode text") from error
    return value


def _json(payload: Any) -> bytes:
    try:
        return orjson.dumps(payload)
    except orjson.JSONEncodeError as error:
        raise _Fault("payload", f"the payload is not JSON: {error}") from error


def _shorten(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."
