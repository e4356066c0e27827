"""Checks every record and turns its raw fields into an `Event` or a `Malformed`.

A reader (`header_reader`, `line_reader`, `field_reader`) extracts the raw fields of a record into a
`Look`. `Look.event` checks each of them and returns the event. `topology.records.reasons` has the
text of each fault. For a plain record a reader may build the same event directly; tests compare
the two paths.

A record that breaks the contract becomes a `Malformed`, never an exception. It has the stream,
source, epoch and sequence number as far as they could be read. If all but the epoch are known, the
record still takes its place in the sequence. REORDER then uses the source's current epoch for an
epoch that could not be read. `topology.stage.stage` rejects streams that the topology does not
name.

In a stream with `reorder.rule: time`, an event's sequence number is the position of its record in
the input, and its own `seq` is ignored. A wrong `seq` does no harm there, but duplicates cannot be
recognized. A record with a negative position comes from a history before the log
(`agents.restore.history`), and its own `seq` is used. Under `without_seq: by_time` a record may
have no sequence number. Until REORDER (`topology.order.reorder.mixed`) assigns one, the event's
`seq` is the bitwise complement of its position, which is negative.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from math import isnan
from typing import Any, Final, NamedTuple

from inorder import rfc3339
from inorder.contract import (
    DATA,
    DEFAULT_STREAM,
    MAX_EPOCH,
    MAX_INT64,
    MAX_SEQ,
    MAX_SOURCE_BYTES,
    MAX_STREAM_BYTES,
    PRODUCER_KINDS,
)
from topology.base.event import NO_EPOCH, Event
from topology.base.outcome import Malformed
from topology.records.reasons import (
    HUGE,
    UNREADABLE,
    WireFault,
    describe_integers,
    fault_of,
    rank_of,
)

MAX_DIGITS: Final = 19
"""The maximum number of digits of an integer that can fit 64 bits."""

BEYOND: Final = 10**MAX_DIGITS
SHORT: Final = MAX_STREAM_BYTES // 4
"""The largest length, in characters, at which a source or a stream always fits its byte limit."""

SHOWN: Final = 40
MAX_NAMED: Final = 3
"""The maximum number of streams that the detail of a fault names."""

UNREAD: Final = object()
"""The value of a raw field that could not be read; a fault explains why."""


class Reading(NamedTuple):
    """The settings that determine how records of some streams are read.

    Attributes:
        by_time: The streams whose events have no sequence numbers.
        units_ns: The length in nanoseconds of the unit of `ts`, for each stream whose unit is not
            ns. Used only for lines.
        unnamed: The stream of records that name none.
        mixed: The streams in which some sources do not number their events.
        max_ahead_ns: The step of timestamps that a second record must confirm. Used only for lines
            without arrival times.
        ids: The streams whose events without numbers have ids, by which copies are found.
    """

    by_time: frozenset[str] = frozenset()
    units_ns: Mapping[str, int] = {}
    unnamed: str = DEFAULT_STREAM
    mixed: frozenset[str] = frozenset()
    max_ahead_ns: int = 3_600_000_000_000
    ids: frozenset[str] = frozenset()


AS_WRITTEN: Final = Reading()


@dataclass(slots=True)
class Look:
    """The raw fields of one record, their complete check, and all faults found.

    Attributes:
        values: The raw fields by name. An absent field is None or has no entry.
        faults: The faults found.
        given: The fields as written in the record, for the details of faults.
        places: A description of where each field is in the record, by field.
        times: A description of the accepted forms of a time.
        needs_time: Whether a missing `ts` is a fault. If not, the record's own timestamp is used.
        lacks: A function that returns why a field is missing, shown instead of its value.
    """

    values: Mapping[str, object]
    faults: list[WireFault]
    given: Mapping[str, object]
    places: Mapping[str, str]
    times: str = ""
    needs_time: bool = False
    lacks: Callable[[str], str] | None = None

    def event(
        self,
        reading: Reading,
        place: int,
        otherwise_ns: int,
        arrival_ns: int,
        offset: int,
        record: Any,
        value: Any,
    ) -> Event | Malformed:
        """Return the event with these fields, or a dead letter with all their faults.

        `place` is the record's position in its input; it is the sequence number in streams without
        numbers. `otherwise_ns` replaces a missing `ts`.
        """
        stream: str | None = reading.unnamed
        if self.values.get("stream") is not None:
            stream = self.text("stream", MAX_STREAM_BYTES)
        source = self.text("source", MAX_SOURCE_BYTES, needed=True)
        is_mixed = stream in reading.mixed and self.values.get("seq") is None
        is_timed = is_mixed or stream in reading.by_time
        seq: int | None = ~place if is_mixed else place
        if place >= 0 and is_timed:
            self.faults = [each for each in self.faults if not each.reason.startswith("seq_")]
        else:
            seq = self.read_integer("seq", 0, MAX_SEQ, needed=True)
        epoch: int | None = NO_EPOCH
        if self.values.get("epoch") is not None:
            epoch = self.read_integer("epoch", 0, MAX_EPOCH)
        ts_ns = self.read_integer("ts", -MAX_INT64, MAX_INT64, needed=self.needs_time)
        time_ns = otherwise_ns if ts_ns is None else ts_ns
        if not -MAX_INT64 <= time_ns <= MAX_INT64:
            self.add_fault("ts", HUGE)
        type_, kind = self.text("type") or "", self.kind()
        id_ = self.text("id") if is_timed and stream in reading.ids else None
        if self.faults or stream is None or source is None or epoch is None or seq is None:
            dead = self.make_malformed(arrival_ns, offset, record)
            if seq is None and reading.by_time:
                named = ", ".join(f"`{name}`" for name in sorted(reading.by_time)[:MAX_NAMED])
                dead.detail += f"; no number is needed in stream {named}"
            dead.stream, dead.source, dead.epoch = stream, source, epoch
            dead.seq = None if is_mixed else seq
            return dead
        event = Event(
            stream, source, epoch, seq, time_ns, arrival_ns, offset, record, value, type_, kind
        )
        event.is_stamped = ts_ns is not None
        if id_:
            event.digest = digest_of_id(source, id_)
        return event

    def make_malformed(self, at_ns: int, offset: int, record: Any) -> Malformed:
        """Return a dead letter with the faults, but without any field of the record."""
        self.faults.sort(key=rank_of)
        detail = "; ".join(fault.detail for fault in self.faults)
        return Malformed(at_ns, offset, self.faults[0].reason, detail, record=record)

    def add_fault(self, field: str, fault: str, takes: str = "") -> None:
        place = self.places.get(field) or f"`{field}`"
        shown = describe(self.given.get(field), fault)
        if self.lacks is not None and fault == "missing":
            shown = self.lacks(field)
        self.faults.append(fault_of(field, fault, place, takes, shown))

    def _find(self, field: str, *, needed: bool) -> object:
        """Return the raw field, or None if it is absent or unreadable.

        A missing field that is needed is a fault.
        """
        value = self.values.get(field)
        if value is None and needed:
            self.add_fault(field, "missing")
        return None if value is UNREAD else value

    def text(self, field: str, max_bytes: int = 0, *, needed: bool = False) -> str | None:
        """Return the text, or None if it is absent or faulty.

        With `max_bytes`, an empty text is a fault.
        """
        value = self._find(field, needed=needed)
        if value is None:
            return None
        if isinstance(value, bytes):
            self.add_fault(field, "undecodable")
        elif not isinstance(value, str):
            self.add_fault(field, "not_text")
        elif max_bytes and not value:
            self.add_fault(field, "empty")
        elif 0 < max_bytes < 4 * len(value) and size_of(value) > max_bytes:
            self.add_fault(field, HUGE)
        else:
            return value
        return None

    def read_integer(self, field: str, low: int, high: int, *, needed: bool = False) -> int | None:
        """Return the integer if it is within the bounds, or None if it is absent or faulty."""
        value = self._find(field, needed=needed)
        if value is None or (type(value) is int and low <= value <= high):
            return value
        takes = self.times if field == "ts" else describe_integers(low, high)
        # The last case covers floats from 2^63 on, into which JSON readers turn large integers.
        fault = HUGE
        if value == "":
            fault = "empty"
        elif type(value) is int:
            fault = "negative" if value < low == 0 else HUGE
        elif not isinstance(value, float) or isnan(value) or abs(value) < 2.0**63:
            fault = UNREADABLE if field == "ts" else "not_integer"
        self.add_fault(field, fault, takes)
        return None

    def kind(self) -> str:
        """Return the kind, or DATA if the record has none or an invalid one."""
        value = self._find("kind", needed=False)
        if value is not None and (not isinstance(value, str) or value not in PRODUCER_KINDS):
            self.add_fault("kind", "unknown")
        return value if isinstance(value, str) else DATA


def digest_of_id(source: str, id_: str) -> int:
    """Return a digest of 62 bits, which is never 0, of an id of a source."""
    content = f"{source}\0{id_}".encode(errors="surrogatepass")
    return int.from_bytes(blake2b(content, digest_size=8).digest()) >> 2 or 1


def size_of(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def find_header(
    field: str,
    name: object,
    headers: Iterable[tuple[str, bytes | None]],
    place: str,
    faults: list[WireFault],
) -> object:
    """Return the value of the headers with this name, or None if there are none.

    A header that occurs more than once is added to `faults`. If its values differ, UNREAD is
    returned.
    """
    same = [content or b"" for each, content in headers if each == name]
    if len(same) > 1:
        faults.append(fault_of(field, "repeated", place))
        if any(each != same[0] for each in same):
            return UNREAD
    return same[0] if same else None


def decode_field(field: str, value: object) -> object:
    """Convert the raw value of this field to the text or number that it represents."""
    if isinstance(value, bytes):
        try:
            value = value.decode()
        except UnicodeDecodeError:
            return value
    if field in {"seq", "epoch"} and isinstance(value, str):
        number = number_of(value)
        return -1 if number == 0 and value.startswith("-") else number
    if isinstance(value, int) and field not in {"seq", "epoch", "ts"}:
        return f"{value:d}" if not isinstance(value, bool) else "true" if value else "false"
    return value


def number_of(text: str) -> int | str:
    """Return the integer that the ASCII digits represent, or `BEYOND` if there are too many.

    A text that is not an integer is returned unchanged.
    """
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()):
        return text
    digits = digits.lstrip("0") or "0"
    number = int(digits) if len(digits) <= MAX_DIGITS else BEYOND
    return -number if text.startswith("-") else number


def to_ns(ts: object, unit_ns: int) -> object:
    """Convert an integer or an RFC 3339 time to nanoseconds; return any other value unchanged."""
    if type(ts) is int:
        return ts * unit_ns
    ts_ns = rfc3339.parse_ns(ts.encode()) if isinstance(ts, str) and ts.isascii() else None
    return ts if ts_ns is None else ts_ns


def describe(value: object, fault: str) -> str:
    """Return a short description of a field's value for the detail of a fault, or "" for none."""
    if value is None or fault == "empty":
        return ""
    if isinstance(value, bytes):
        text = f"`{repr(value[:SHOWN])[2:-1]}"
        return f"{text}`" if len(value) <= SHOWN else f"{text}…` ({len(value)} bytes)"
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    if isinstance(value, bool):
        return "true" if value else "false"
    text = f'"{value}"' if isinstance(value, str) else str(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
