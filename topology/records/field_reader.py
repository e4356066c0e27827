"""Reads foreign records as events, by a mapping (`Fields`) that gives the place of each field.

A plain record becomes an event directly; all others go through `topology.records.checker`. The
detail of a fault names the place of the field, never its content. Fields that are not mapped, and a
missing stream, epoch, type or kind, are treated as an absent header. A source, stream or type may
be an integer or a boolean, and a number may be written as digits in text. A mapping without `ts`
uses the record's own timestamp. Besides the reasons of fields, a record may be refused for the
reasons of decoders, such as `value_undecodable`, and for `key_undecodable`.

Derived topics have the headers of the contract, whatever the mapping is (`FieldReader.headers`,
preset `plain`, `ts` in ns). They replace the record's own headers of the same names. Its other
headers, its key and its value stay unchanged.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from inorder.contract import DEFAULT_STREAM, MAX_INT64, MAX_SEQ, PRESETS
from topology.base.event import NO_EPOCH, Event, digits
from topology.base.outcome import Malformed
from topology.base.paths import Path
from topology.records.checker import (
    AS_WRITTEN,
    MAX_DIGITS,
    SHORT,
    UNREAD,
    Look,
    Reading,
    decode_field,
    find_header,
)
from topology.records.header_reader import Headers
from topology.records.mapping import PLACES, Fields
from topology.records.reasons import WireFault, fault_of
from topology.records.rising_times import RisingTimes
from topology.records.times import Twice, read_instant_ns, reading_of
from topology.records.values import Decode, Pick, Picking, ValueFault, follow_path, lacking, picking
from topology.records.where import Where

PLAIN: Final = PRESETS["plain"]
_MAPPED: Final = frozenset(PLAIN)
_RARE: Final = ("stream", "epoch", "kind")
NO_HEADERS: Final[Headers] = ()
KEY_UNDECODABLE: Final = "key_undecodable"


class FieldReader:
    """A reader of the records of one topic, or the rows of one file.

    `decode` decodes values. `pickings` makes a function that extracts some paths of a value, at
    lower cost than a full decoding. `decode_key` decodes keys; without it a key is text. `topic` is
    the topic's name, for fields that are mapped to the place `topic`. Rows of a file may lack an
    arrival time; `rising` then finds the instant of a local time that occurs twice.
    `describe_lack` describes where the path to a missing field breaks off.

    Attributes:
        fields: The mapping.
        reading: The settings by which records of the streams are read.
        places: The place of each mapped field except the payload.
        pick: A function that extracts the mapped fields of a value, in the order of `places`.
        reads_keys: Whether keys are decoded.
    """

    def __init__(
        self,
        fields: Fields,
        decode: Decode,
        pickings: Picking | None = None,
        *,
        decode_key: Decode | None = None,
        reading: Reading = AS_WRITTEN,
        topic: str = "",
        rising: RisingTimes | None = None,
        describe_lack: Callable[[object, Where], str] = lacking,
    ) -> None:
        self._describe_lack = describe_lack
        self.fields = fields
        self.reading = reading
        self._unnamed = reading.unnamed
        self._is_numbered = not reading.by_time
        self.reads_keys = decode_key is not None
        self._decodes: dict[str, Decode] = {"payload": decode, "key": decode_key or decode}
        self._time = reading_of(fields)
        self._unit_ns = self._time.unit_ns
        self._has_form = self._time.form is not None
        self._rising = None if self._time.zone is None else rising
        found = {name: getattr(fields, name) for name in PLACES if name != "payload"}
        self.places: dict[str, Where] = {name: at for name, at in found.items() if at is not None}
        self._shown = {name: f"`{where}`" for name, where in self.places.items()}
        self._constants: dict[str, object] = {
            name: topic if where.place == "topic" else where.path[0]
            for name, where in self.places.items()
            if where.place in {"topic", "text"}
        }
        inside, paths = self._at("payload")
        self.pick = (pickings or partial(picking, decode))(paths)
        keyed, key_paths = self._at("key")
        self._pick_id: Pick | None = None
        if fields.id is not None and fields.id.place == "payload":
            self._pick_id = (pickings or partial(picking, decode))([fields.id.path])
        self._outside = [*self._at("header")[0], *self._at("partition")[0]]
        self._picked = [(False, inside, self.pick)] if inside else []
        if decode_key is None:
            self._outside += keyed
        elif keyed:
            self._picked.append((True, keyed, picking(decode_key, key_paths)))
        self._is_plain = self.places.keys().isdisjoint(_RARE)
        self._needs_time = fields.ts.place != "timestamp" and not fields.ts_optional
        self._times = self._time.describe()

    def _at(self, place: str) -> tuple[list[str], list[Path]]:
        """Return the fields that are mapped to this kind of place, and their paths."""
        names = [name for name, where in self.places.items() if where.place == place]
        return names, [self.places[name].path for name in names]

    def read(
        self,
        headers: Headers,
        key: bytes | None,
        value: Any,
        timestamp_ns: int,
        arrival_ns: int = 0,
        offset: int = 0,
        record: Any = None,
        partition: int = 0,
    ) -> Event | Malformed:
        """Return the event or dead letter of a record.

        `timestamp_ns` is the record's own timestamp; for the row of a file it is the arrival, or 0
        if it has none. A local time that occurs twice is the instant nearer to it. `value` is the
        raw value, which `decode` decodes.
        """
        values = self._constants.copy()
        faults: list[WireFault] = []
        for is_key, names, pick in self._picked:
            try:
                values.update(zip(names, pick(key if is_key else value), strict=True))
            except ValueFault as wrong:
                fault = WireFault(wrong.reason, wrong.detail)
                if is_key:
                    fault = WireFault(KEY_UNDECODABLE, f"the key: {wrong.detail}")
                faults.append(fault)
                values.update(dict.fromkeys(names, UNREAD))
        for name in self._outside:
            where = self.places[name]
            content: object = partition if where.place == "partition" else key
            if where.place == "header":
                content = find_header(name, where.path[0], headers, self._shown[name], faults)
            values[name] = decode_field(name, content)
        get = values.get
        source, seq, ts = get("source"), get("seq"), get("ts")
        if type(seq) is str and len(seq) <= MAX_DIGITS and seq.isascii() and seq.isdigit():
            seq = int(seq)
        if type(ts) is str and len(ts) <= MAX_DIGITS and ts.isascii() and ts.isdigit():
            ts = ts if self._has_form else int(ts)
        type_ = get("type")
        if (
            not faults
            and type(source) is str
            and 0 < len(source) <= SHORT
            and type(seq) is int
            and 0 <= seq <= MAX_SEQ
            and (type(ts) is int or (ts is None and not self._needs_time))
            and (self._is_plain or all(get(name) is None for name in _RARE))
            and (type_ is None or type(type_) is str)
            and self._is_numbered
            and not (self._has_form and ts is not None)
        ):
            ts_ns = timestamp_ns if ts is None else ts * self._unit_ns
            if -MAX_INT64 <= ts_ns <= MAX_INT64:
                event = Event(
                    self._unnamed,
                    source,
                    NO_EPOCH,
                    seq,
                    ts_ns,
                    arrival_ns,
                    offset,
                    record,
                    value,
                    type_ or "",
                )
                event.is_stamped = ts is not None
                return event
        if ts is not None and ts is not UNREAD and ts not in ("", b""):
            values["ts"] = self._read_instant(ts, source, seq, timestamp_ns, faults)
        values = {name: decode_field(name, each) for name, each in values.items()}
        lacks = partial(self._lacks, {"payload": value, "key": key})
        look = Look(values, faults, {}, self._shown, self._times, self._needs_time, lacks)
        return look.event(self.reading, offset, timestamp_ns, arrival_ns, offset, record, value)

    def _read_instant(
        self, ts: object, source: object, seq: object, near_ns: int, faults: list[WireFault]
    ) -> object:
        """Return the instant of a time in ns; if there is none, UNREAD, with a fault."""
        found = read_instant_ns(decode_field("ts", ts), self._time, near_ns)
        if self._rising is not None and not near_ns and isinstance(source, str | int):
            number = seq if self._is_numbered and isinstance(seq, int) else None
            found = self._rising.take(source, number, found)
        elif isinstance(found, Twice):
            found = found.nearest_ns(near_ns)
        if not isinstance(found, str):
            return found
        faults.append(fault_of("ts", found, self._shown["ts"], self._times))
        return UNREAD

    def _lacks(self, contents: dict[str, Any], field: str) -> str:
        """Return why a field of the value or the key is missing; "" for any other field."""
        where = self.places.get(field)
        if where is None or where.place not in contents or not where.path:
            return ""
        content = contents[where.place]
        if content is None:
            return f"the {'key' if where.place == 'key' else 'value'} is null"
        try:
            return self._describe_lack(self._decodes[where.place](content), where)
        except ValueFault:
            return self._describe_lack(None, where)

    def own_seq(self, item: Event | Malformed) -> int | None:
        """Return the sequence number that the record itself contains, or None if it has none."""
        seq = item.seq
        return None if seq is None or seq < 0 or item.stream in self.reading.by_time else seq

    def find_id(self, headers: Headers, key: bytes | None, value: Any) -> str | None:
        """Return the id of a record that was read as an event, or None if it has none."""
        where = self.fields.id
        if where is None:
            return None
        found: object = key
        try:
            if self._pick_id is not None:
                (found,) = self._pick_id(value)
            elif where.place == "header":
                found = dict(headers).get(str(where.path[0]))
            elif self.reads_keys:
                found = follow_path(self._decodes["key"](key), where.path)
        except ValueFault:
            return None
        found = decode_field("id", found)
        return found if isinstance(found, str) and found else None

    def values_of(self, item: Event | Malformed) -> dict[str, Any]:
        """Return the fields of a line in inorder's recording format, without the payload."""
        values: dict[str, Any] = {"stream": item.stream, "source": item.source}
        values["seq"] = self.own_seq(item)
        values["epoch"] = None if item.epoch == NO_EPOCH else item.epoch
        if isinstance(item, Event):
            values["ts"] = item.ts_ns if item.is_stamped else None
            values["type"] = item.type
            values["kind"] = item.kind or None
        return values

    def headers(self, event: Event, original: Headers) -> list[tuple[str, bytes | None]]:
        """Return the headers of the contract for the event, then its record's other headers."""
        written: list[tuple[str, bytes | None]] = [(PLAIN.source, event.source.encode())]
        if self.own_seq(event) is not None:
            written.append((PLAIN.seq, digits(event.seq)))
        written.append((PLAIN.ts, b"%d" % event.ts_ns))
        if event.type:
            written.append((PLAIN.type, event.type.encode()))
        if event.epoch >= 0:
            written.append((PLAIN.epoch, digits(event.epoch)))
        if event.stream != DEFAULT_STREAM:
            written.append((PLAIN.stream, event.stream.encode()))
        if event.kind:
            written.append((PLAIN.kind, event.kind.encode()))
        written += [header for header in original if header[0] not in _MAPPED]
        return written
