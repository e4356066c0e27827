"""Foreign records as what the header contract says: a mapping (`Fields`) is a translation.

What a mapping finds is written as headers of the contract (preset `plain`, `ts` in ns), which
`HeaderReader` then reads, and which every later topic bears. Headers of these names that were there
are dropped, all others stay; key and value stay as they are.

Reasons are `<field>_<fault>`, fields in the order source, seq, stream, epoch, ts, type, kind:

| fault         | fields                     | meaning                                             |
|---------------|----------------------------|-----------------------------------------------------|
| `missing`     | source, seq, ts            | no such field, null, or the way ends at a scalar    |
| `empty`       | source, seq, stream, epoch, ts | a text or a header without anything in it       |
| `repeated`    | all                        | the header is there more than once                  |
| `undecodable` | source, stream, type, kind | bytes that are not UTF-8                            |
| `not_text`    | source, stream, type, kind | a float, a list or an object                        |
| `not_integer` | seq, epoch                 | anything but an integer from 0, or digits           |
| `huge`        | source, stream, ts         | too long, or out of the range of int64              |
| `unreadable`  | ts                         | no time                                             |
| `unknown`     | kind                       | no kind that a producer may send                    |

and before all of these `value_undecodable` and what else a decoder refuses a value with. A detail
names the place, never what is there. Where nothing is mapped, and where an optional field (stream,
epoch, type, kind) is missing, it is as if the header were not there. A record's own timestamp is
the `ts` of a mapping without one.

In a stream with `reorder.rule: time` numbers are not looked at, as in `header_reader`, and under
`without_seq: by_time` one may be missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any, Final, NamedTuple, NoReturn

from inorder.contract import (
    DATA,
    DEFAULT_STREAM,
    MAX_EPOCH,
    MAX_INT64,
    MAX_SEQ,
    MAX_SOURCE_BYTES,
    MAX_STREAM_BYTES,
    PRESETS,
    PRODUCER_KINDS,
    UNIT_NS,
)
from topology.model.event import digits
from topology.wire.header_reader import WITHOUT_SEQ, Headers
from topology.wire.mapping import Fields
from topology.wire.times import TimeFault, instant_ns, zone_of
from topology.wire.values import Decode, Pick, Picking, Timestamp, ValueFault, lacking, picking
from topology.wire.where import Path, Where

PLAIN: Final = PRESETS["plain"]
_MAPPED: Final = frozenset(PLAIN)
FIELDS: Final = ("source", "seq", "stream", "epoch", "ts", "type", "kind")
NEEDED: Final = frozenset({"source", "seq", "ts"})
_SHORT: Final = MAX_STREAM_BYTES // 4
"""So many characters cannot be more bytes than allowed."""
_MAX_DIGITS: Final = 40
MOST_DIGITS: Final = 19
"""An integer of so many may fit int64."""
NO_HEADERS: Final[Headers] = ()
OF_NUMBER: Final = f"name the field that has the number{WITHOUT_SEQ}"
KEY_UNDECODABLE: Final = "key_undecodable"


class MappedFields(NamedTuple):
    """What a record says by its mapping. None: it does not say."""

    source: str
    seq: int | None
    ts_ns: int
    type: str
    epoch: int | None
    stream: str
    kind: str


class Refused(NamedTuple):
    """Why a record cannot be used, and what of it could be read."""

    reason: str
    detail: str
    source: str | None
    seq: int | None
    epoch: int | None
    stream: str | None


class _FieldFault(Exception):
    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.detail = detail


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
        self._seqless = self.by_time.union(mixed)  # where none, or not each, has a number
        self._unit_ns = UNIT_NS[fields.ts_unit]
        self._zone = zone_of(fields.ts_zone)
        self._where: list[Where | None] = [
            fields.source, fields.seq, fields.stream, fields.epoch, fields.ts, fields.type,
            fields.kind,
        ]  # fmt: skip
        pairs = zip(FIELDS, self._where, strict=True)
        self.places = {name: where for name, where in pairs if where is not None}
        self._constants: list[object] = [None] * len(FIELDS)
        self._at: dict[str, list[int]] = {}
        for at, where in enumerate(self._where):
            if where is None:
                continue
            if where.place == "text":
                self._constants[at] = where.path[0]
            elif where.place == "topic":
                self._constants[at] = topic
            else:
                self._at.setdefault(where.place, []).append(at)
        payload_paths = self._paths("payload")
        self.pick: Pick = (pickings or _whole(decode))(payload_paths)
        self.reads_keys = decode_key is not None
        self._pick_key: Pick | None = None
        if decode_key is not None:
            self._pick_key = picking(decode_key, self._paths("key"))
        self._payload_at = self._at.get("payload", [])

    def _paths(self, place: str) -> list[Path]:
        return [where.path for where in self._where if where is not None and where.place == place]

    def found(
        self,
        headers: Headers,
        key: bytes | None,
        value: Any,
        timestamp_ns: int,
        partition: int = 0,
    ) -> MappedFields | Refused:
        """What one record says; `timestamp_ns` is its own, `value` what `decode` takes."""
        values = self._constants.copy()
        faults: list[tuple[str, str]] = []
        unread: set[int] = set()
        if self._payload_at:
            try:
                for at, each in zip(self._payload_at, self.pick(value), strict=True):
                    values[at] = each
            except ValueFault as wrong:
                faults.append((wrong.reason, wrong.detail))
                unread.update(self._payload_at)
        if len(self._at) > (1 if self._payload_at else 0):
            self._gather(headers, key, timestamp_ns, partition, values, faults, unread)
        return self._said(values, faults, unread, key, value, timestamp_ns)

    def _gather(
        self,
        headers: Headers,
        key: bytes | None,
        timestamp_ns: int,
        partition: int,
        values: list[object],
        faults: list[tuple[str, str]],
        unread: set[int],
    ) -> None:
        """The values that are not in the record's value."""
        for at in self._at.get("timestamp", ()):
            values[at] = Timestamp(timestamp_ns)
        for at in self._at.get("partition", ()):
            values[at] = partition
        for at in self._at.get("header", ()):
            where = self._where[at]
            name = "" if where is None else where.path[0]
            same = [content or b"" for each, content in headers if each == name]
            if len(same) > 1:
                detail = f"header `{name}` is there {len(same)} times; once is enough"
                faults.append((f"{FIELDS[at]}_repeated", detail))
                if any(content != same[0] for content in same):
                    unread.add(at)
            values[at] = same[0] if same else None
        keyed = self._at.get("key", ())
        if keyed and self._pick_key is None:
            for at in keyed:
                values[at] = key
        elif keyed and self._pick_key is not None:
            try:
                for at, each in zip(keyed, self._pick_key(key), strict=True):
                    values[at] = each
            except ValueFault as wrong:
                faults.append((KEY_UNDECODABLE, f"the key: {wrong.detail}"))
                unread.update(keyed)

    def _said(
        self,
        values: list[object],
        faults: list[tuple[str, str]],
        unread: set[int],
        key: bytes | None,
        value: Any,
        timestamp_ns: int,
    ) -> MappedFields | Refused:
        source, seq, stream, epoch, ts, type_, kind = values
        if type(seq) is str and len(seq) <= MOST_DIGITS and seq.isascii() and seq.isdigit():
            seq = int(seq)
        if type(ts) is str and len(ts) <= MOST_DIGITS and ts.isascii() and ts.isdigit():
            ts = int(ts)
        # The plain case at one go; whatever is not plain is looked at closely.
        if (
            not faults
            and type(source) is str
            and 0 < len(source) <= _SHORT
            and type(seq) is int
            and 0 <= seq <= MAX_SEQ
            and type(ts) is int
            and stream is None
            and epoch is None
            and kind is None
            and (type_ is None or type(type_) is str)
            and not self.by_time
        ):
            ts_ns = ts * self._unit_ns
            if -MAX_INT64 <= ts_ns <= MAX_INT64:
                return MappedFields(source, seq, ts_ns, type_ or "", None, self.stream, DATA)
        read: list[object] = [None] * len(FIELDS)
        streams_by_time = self._seqless if seq is None else self.by_time
        for at in (2, 0, 1, 3, 4, 5, 6):  # the stream first: it says whether a number is needed
            where = self._where[at]
            if at in unread or where is None:
                continue
            if at == 1 and (read[2] or self.stream) in streams_by_time:
                continue
            try:
                read[at] = self._field(at, where, values[at], key, value)
            except _FieldFault as wrong:
                faults.append((wrong.reason, wrong.detail))
                unread.add(at)
        name = None if 2 in unread else read[2] or self.stream
        needs_number = name not in streams_by_time
        if needs_number and self._where[1] is None:
            remedy = "name its place: `seq`, or write reorder: {rule: time}"
            faults.append(("seq_missing", f"the mapping names no number; {remedy}"))
        return _settled(read, faults, str(name) if name else None, timestamp_ns)

    def _field(self, at: int, where: Where, value: object, key: bytes | None, whole: Any) -> object:
        """The field's value, None where it may be missing."""
        field = FIELDS[at]
        if value is None:
            if field in NEEDED and not (field == "ts" and self.fields.ts_optional):
                remedy = OF_NUMBER if field == "seq" else "name a field that every record has"
                detail = f"`{where}` is missing{self._why(where, key, whole)}; {remedy}"
                raise _FieldFault(f"{field}_missing", detail)
            return None
        if isinstance(value, bytes):
            try:
                value = value.decode()
            except UnicodeDecodeError:
                _refuse(field, "undecodable", where, "is not UTF-8; write text")
        if value == "" and field not in {"type", "kind"}:
            _refuse(field, "empty", where, "is empty; write something, or leave it out")
        if field in {"seq", "epoch"}:
            return _integer(field, where, value)
        if field == "ts":
            try:
                return instant_ns(value, self._unit_ns, self._zone)
            except TimeFault as wrong:
                raise _FieldFault(f"ts_{wrong.fault}", f"`{where}` {wrong}") from None
        return _text(field, where, value)

    def _why(self, where: Where, key: bytes | None, value: Any) -> str:
        """Return why a missing field's dead letter says that it is; "" for a place of its own."""
        if where.place not in {"payload", "key"} or not where.path:
            return ""
        is_key = where.place == "key"
        content = key if is_key else value
        if content is None:
            return f": the {'key' if is_key else 'value'} is null"
        try:
            decode = self._decode_key if is_key and self._decode_key else self._decode
            return f": {lacking(decode(content), where)}"
        except ValueFault:
            return f": {lacking(None, where)}"

    def headers(self, found: MappedFields, original: Headers) -> list[tuple[str, bytes | None]]:
        """The contract's headers of what was found, then those that stay."""
        written: list[tuple[str, bytes | None]] = [(PLAIN.source, found.source.encode())]
        if found.seq is not None:
            written.append((PLAIN.seq, digits(found.seq)))
        written.append((PLAIN.ts, b"%d" % found.ts_ns))
        if found.type:
            written.append((PLAIN.type, found.type.encode("utf-8", "surrogatepass")))
        if found.epoch is not None:
            written.append((PLAIN.epoch, digits(found.epoch)))
        if found.stream != DEFAULT_STREAM:
            written.append((PLAIN.stream, found.stream.encode()))
        if found.kind:
            written.append((PLAIN.kind, found.kind.encode()))
        written += [header for header in original if header[0] not in _MAPPED]
        return written


def _whole(decode: Decode) -> Picking:
    def made(paths: Sequence[Path]) -> Pick:
        return picking(decode, paths)

    return made


def _settled(
    read: list[object],
    faults: list[tuple[str, str]],
    stream: str | None,
    timestamp_ns: int,
) -> MappedFields | Refused:
    source, seq, _, epoch, ts_ns, type_, kind = read
    assert source is None or isinstance(source, str)
    assert seq is None or isinstance(seq, int)
    assert epoch is None or isinstance(epoch, int)
    if not faults and source is not None and stream is not None:
        assert ts_ns is None or isinstance(ts_ns, int)
        ts_ns = timestamp_ns if ts_ns is None else ts_ns
        return MappedFields(source, seq, ts_ns, str(type_ or ""), epoch, stream, str(kind or DATA))
    faults.sort(key=lambda fault: _rank(fault[0]))
    details = "; ".join(detail for _, detail in faults)
    return Refused(faults[0][0], details, source, seq, epoch, stream)


def _rank(reason: str) -> int:
    field = reason.partition("_")[0]
    return FIELDS.index(field) if field in FIELDS else -1


def _refuse(field: str, fault: str, where: Where, what: str) -> NoReturn:
    raise _FieldFault(f"{field}_{fault}", f"`{where}` {what}")


def _integer(field: str, where: Where, value: object) -> int:
    """An integer from 0 to 2^63 - 1, or a text of ASCII digits that says one."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < _MAX_DIGITS:
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_EPOCH:
        return value
    if isinstance(value, float | Decimal):
        what = "is a number with a point or an exponent; cast the column to an integer"
    elif field == "epoch":
        what = f"is no integer from 0 to {MAX_EPOCH}; leave it out: REORDER then infers restarts"
    else:
        what = f"is no integer from 0 to {MAX_SEQ}, nor its digits; cast the column to an integer"
    _refuse(field, "not_integer", where, what)


def _text(field: str, where: Where, value: object) -> str:
    if isinstance(value, bool):
        value = "true" if value else "false"
    elif isinstance(value, int):
        value = str(value)
    if not isinstance(value, str):
        _refuse(field, "not_text", where, "is no text; name a field that is a text or an integer")
    most = {"source": MAX_SOURCE_BYTES, "stream": MAX_STREAM_BYTES}.get(field)
    if most is not None and len(value) * 4 > most:
        size = len(value.encode("utf-8", "surrogatepass"))
        if size > most:
            _refuse(field, "huge", where, f"has {size} bytes; write at most {most}")
    if field == "kind" and value not in PRODUCER_KINDS:
        _refuse(field, "unknown", where, "is no kind; write heartbeat, bye or nothing")
    return value
