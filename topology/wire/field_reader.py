"""Foreign records as events: a mapping (`Fields`) says where each field is.

What is not plain goes to `topology.wire.checker`. A detail names the place, never what is there.
Where nothing is mapped, and where an optional field (stream, epoch, type, kind) is missing, it is
as if the header were not there. An integer or a boolean names a source, a stream or a type; digits
are a number. A record's own timestamp is the `ts` of a mapping without one. Reasons beside those of
fields are `value_undecodable` and what else a decoder refuses a value with, and `key_undecodable`.

Later topics bear the headers of the contract (`headers`: preset `plain`, `ts` in ns), whatever the
mapping. Headers of these names that were there are dropped, all others stay; key and value stay as
they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, Final

from inorder.contract import (
    DEFAULT_STREAM,
    MAX_INT64,
    MAX_SEQ,
    MAX_STREAM_BYTES,
    PRESETS,
    UNIT_NS,
)
from topology.model.event import NO_EPOCH, Event, digits
from topology.model.outcome import Malformed
from topology.wire.checker import MAX_DIGITS, UNREAD, Checker, Look, made_out, one_header
from topology.wire.header_reader import Headers
from topology.wire.mapping import Fields
from topology.wire.reasons import WireFault, fault_of, times_in
from topology.wire.times import instant_ns, zone_of
from topology.wire.values import Decode, Pick, Picking, ValueFault, lacking, picking
from topology.wire.where import Path, Where

PLAIN: Final = PRESETS["plain"]
_MAPPED: Final = frozenset(PLAIN)
FIELDS: Final = ("source", "seq", "stream", "epoch", "ts", "type", "kind")
_RARE: Final = ("stream", "epoch", "kind")
_SHORT: Final = MAX_STREAM_BYTES // 4
"""So many characters cannot be more bytes than allowed."""
NO_HEADERS: Final[Headers] = ()
KEY_UNDECODABLE: Final = "key_undecodable"


class FieldReader:
    """Reads the records of one topic, or the rows of one file.

    `decode` reads values, `pickings` makes of paths what reads only these; `decode_key` reads keys
    (None: a key is text). `stream`: of a record that names none. `by_time`: streams without
    numbers; `mixed`: those in which one may be missing. `topic`: what the place `topic` gives.
    `places` are those of its fields; `pick` reads those within the value, in their order.
    `reads_keys`: a key is not text.
    """

    def __init__(
        self,
        fields: Fields,
        decode: Decode,
        pickings: Picking | None = None,
        *,
        decode_key: Decode | None = None,
        stream: str = DEFAULT_STREAM,
        by_time: Iterable[str] = (),
        mixed: Iterable[str] = (),
        topic: str = "",
    ) -> None:
        self.fields = fields
        self._decode = decode
        self._decode_key = decode_key
        self.stream = stream
        self.by_time = frozenset(by_time)
        self._unit_ns = UNIT_NS[fields.ts_unit]
        self._zone = zone_of(fields.ts_zone)
        found = {name: getattr(fields, name) for name in FIELDS}
        self.places: dict[str, Where] = {name: at for name, at in found.items() if at is not None}
        self._shown = {name: f"`{where}`" for name, where in self.places.items()}
        self._constants: dict[str, object] = {
            name: topic if where.place == "topic" else where.path[0]
            for name, where in self.places.items()
            if where.place in {"topic", "text"}
        }
        self._inside = self._named("payload")
        self._keyed = self._named("key")
        self._outside = [*self._named("header"), *self._named("partition"), *self._keyed]
        self.pick: Pick = (pickings or partial(picking, decode))(self._paths(self._inside))
        self.reads_keys = decode_key is not None
        self._pick_key: Pick | None = None
        if decode_key is not None:
            self._pick_key = picking(decode_key, self._paths(self._keyed))
        self._is_bare = self.places.keys().isdisjoint(_RARE)
        self._needs_time = fields.ts.place != "timestamp" and not fields.ts_optional
        self._times = times_in(fields.ts_unit)
        self._checker = Checker(by_time, mixed, stream, needs_time=self._needs_time)

    def _named(self, place: str) -> list[str]:
        return [name for name, where in self.places.items() if where.place == place]

    def _paths(self, names: Sequence[str]) -> list[Path]:
        return [self.places[name].path for name in names]

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
        """One record; `timestamp_ns` is its own, `value` what `decode` takes."""
        values = self._constants.copy()
        faults: list[WireFault] = []
        if self._inside:
            try:
                values.update(zip(self._inside, self.pick(value), strict=True))
            except ValueFault as wrong:
                faults.append(WireFault(wrong.reason, wrong.detail))
                values.update(dict.fromkeys(self._inside, UNREAD))
        if self._outside:
            self._gather(headers, key, partition, values, faults)
        get = values.get
        source, seq, ts = get("source"), get("seq"), get("ts")
        if type(seq) is str and len(seq) <= MAX_DIGITS and seq.isascii() and seq.isdigit():
            seq = int(seq)
        if type(ts) is str and len(ts) <= MAX_DIGITS and ts.isascii() and ts.isdigit():
            ts = int(ts)
        type_ = get("type")
        # The plain case at one go; whatever is not plain is looked at closely.
        if (
            not faults
            and type(source) is str
            and 0 < len(source) <= _SHORT
            and type(seq) is int
            and 0 <= seq <= MAX_SEQ
            and (type(ts) is int or (ts is None and not self._needs_time))
            and (self._is_bare or all(get(name) is None for name in _RARE))
            and (type_ is None or type(type_) is str)
            and not self.by_time
        ):
            ts_ns = timestamp_ns if ts is None else ts * self._unit_ns
            if -MAX_INT64 <= ts_ns <= MAX_INT64:
                event = Event(
                    self.stream,
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
            time_ns = instant_ns(made_out("ts", ts), self._unit_ns, self._zone)
            values["ts"] = time_ns
            if isinstance(time_ns, str):
                faults.append(fault_of("ts", time_ns, self._shown["ts"], self._times))
                values["ts"] = UNREAD
        values = {name: made_out(name, each) for name, each in values.items()}
        look = Look(values, faults, self._shown, partial(self._why, key, value), self._times)
        return self._checker.read(look, offset, timestamp_ns, arrival_ns, offset, record, value)

    def _gather(
        self,
        headers: Headers,
        key: bytes | None,
        partition: int,
        values: dict[str, object],
        faults: list[WireFault],
    ) -> None:
        """The values that are not in the record's value."""
        for name in self._outside:
            where = self.places[name]
            if where.place == "partition":
                values[name] = partition
            elif where.place == "header":
                same = [content or b"" for each, content in headers if each == where.path[0]]
                values[name] = made_out(name, one_header(name, same, self._shown[name], faults))
            elif self._pick_key is None:
                values[name] = made_out(name, key)
        if self._keyed and self._pick_key is not None:
            try:
                values.update(zip(self._keyed, self._pick_key(key), strict=True))
            except ValueFault as wrong:
                faults.append(WireFault(KEY_UNDECODABLE, f"the key: {wrong.detail}"))
                values.update(dict.fromkeys(self._keyed, UNREAD))

    def _why(self, key: bytes | None, value: Any, field: str, fault: str) -> str:
        """Why a field is missing; "" for a place of its own, and for every other fault."""
        where = self.places.get(field)
        if fault != "missing" or where is None or where.place not in {"payload", "key"}:
            return ""
        is_key = where.place == "key"
        content = key if is_key else value
        if not where.path or content is None:
            return f"the {'key' if is_key else 'value'} is null" if where.path else ""
        try:
            decode = self._decode_key if is_key and self._decode_key else self._decode
            return lacking(decode(content), where)
        except ValueFault:
            return lacking(None, where)

    def own_seq(self, item: Event | Malformed) -> int | None:
        """Return the number that a record bears, None where it bears none."""
        seq = item.seq
        if seq is None or seq < 0 or (self.by_time and item.stream in self.by_time):
            return None
        return seq

    def values_of(self, item: Event | Malformed) -> dict[str, Any]:
        """Return what a recording in our own form would say of a record, its payload aside."""
        seq, epoch = self.own_seq(item), item.epoch
        if epoch == NO_EPOCH:
            epoch = None
        values: dict[str, Any] = {
            "stream": item.stream, "source": item.source, "seq": seq, "epoch": epoch,
        }  # fmt: skip
        if isinstance(item, Event):
            values["ts"] = item.ts_ns if item.is_stamped else None
            values["type"] = item.type
            values["kind"] = item.kind or None
        return values

    def headers(self, event: Event, original: Headers) -> list[tuple[str, bytes | None]]:
        """The contract's headers of an event, then those that stay."""
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
