"""The header contract: what a record must say for its event to be put in order.

Headers, their names and ranges are in `inorder.contract`. Values are ASCII; numbers are plain
digits, without sign (but for `ts`), space or underscore. Without `epoch` the epoch is left to
REORDER (`NO_EPOCH`), without `ts` the record's own timestamp counts; `ts` must fit int64 as
nanoseconds, and so must its negative: -2^63 is `huge`.

In a stream with `reorder.rule: time` the offset of a record is its number, whatever its `seqNum`
says or does not say: so numbers that are none do no harm, and a copy cannot be recognized. One from
before the log, whose offset is below 0 (agents.stage.history), bears its number.

Under `without_seq: by_time` a record without that header is taken: the `seq` of its event is the
complement of the offset, which is below 0, until REORDER (topology.reorder.mixed) has seen it.

Other headers are ignored and carried along. What breaks the contract is a
`Malformed`, never an exception. Its reason is `<field>_<fault>`, the first of these
that applies, fields in the order source, seq, stream, epoch, ts, type, kind;
its detail names all that is wrong.

| fault         | fields                         | meaning                                 |
|---------------|--------------------------------|-----------------------------------------|
| `repeated`    | all                            | the header is there more than once      |
| `missing`     | source, seq                    | no such header                          |
| `empty`       | source, seq, stream, epoch, ts | the header has no value                 |
| `undecodable` | source, stream, type           | not UTF-8                               |
| `not_integer` | seq, epoch                     | something else than digits              |
| `negative`    | seq, epoch                     | digits behind a minus                   |
| `huge`        | source, stream, seq, epoch, ts | too long, or out of the range above     |
| `unreadable`  | ts                             | neither an integer nor RFC 3339         |
| `unknown`     | kind                           | no kind that a producer may send        |

What could be read is in the `Malformed`; where stream, source and seq are there, the
record still takes its place in the sequence (an epoch that could not be read is
None, and REORDER takes the one the source is in). A repeated header counts for the
place if all its values agree. A stream the topology does not name is the router's
matter.

`read_sequenced` and `read_ordered` read what `header_writer` wrote to the derived topics; their
faults are `stamp_missing` and `stamp_unreadable`.

Cost: one pass; a record without fault is read without looking at it twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from inorder import rfc3339
from inorder.contract import (
    DEFAULT_STREAM,
    MAX_EPOCH,
    MAX_INT64,
    MAX_SOURCE_BYTES,
    MAX_STREAM_BYTES,
    MIN_INT64,
    PRODUCER_KINDS,
    UNIT_NS,
    Contract,
)
from topology.model.event import (
    BLOCKED,
    DATA,
    DEAD,
    NO_EPOCH,
    PROGRESS,
    UNBLOCKED,
    WATERMARK,
    Event,
)
from topology.model.outcome import Malformed

Headers = Sequence[tuple[str, bytes | None]]

MAX_DIGITS: Final = 19
SHOWN_BYTES: Final = 40
MAX_NAMED: Final = 3
"""Streams named in a detail."""

NOT_PLAIN: Final = 2**63
"""Above every bound: sends the record to the close look."""

STAGE_KINDS: Final = frozenset({BLOCKED, DEAD, PROGRESS, UNBLOCKED})


class HeaderReader:
    """Reads the records of the streams that share one header contract. `by_time`: those of them
    that number nothing, `mixed`: those in which some sources number nothing; only for input topics,
    on all others there are numbers."""

    def __init__(
        self, contract: Contract, by_time: Iterable[str] = (), mixed: Iterable[str] = ()
    ) -> None:
        self.by_time = frozenset(by_time)
        self._mixed = frozenset(name.encode() for name in mixed)
        self.names = names = contract.names()
        self.unit_ns = UNIT_NS[contract.ts_unit]
        self._by_time = frozenset(name.encode() for name in self.by_time)
        self._source = names.source
        self._seq = names.seq
        self._ts = names.ts
        self._type = names.type
        self._epoch = names.epoch
        self._stream = names.stream
        self._kind = names.kind
        self._ts_unit: str = contract.ts_unit

    def read(
        self,
        headers: Headers,
        timestamp_ns: int,
        arrival_ns: int,
        offset: int,
        record: Any,
        value: Any,
    ) -> Event | Malformed:
        """One record of an input topic; `timestamp_ns` is the record's own."""
        found = dict(headers)
        if offset >= 0 and (self._by_time or self._mixed):
            stream = found.get(self._stream, b"default")
            others = [header for header in headers if header[0] != self._seq]
            numbered = [*others, (self._seq, b"%d" % offset)]
            if stream in self._by_time:
                headers, found = numbered, dict(numbered)
            elif stream in self._mixed and len(others) == len(headers):
                item = self.read(numbered, timestamp_ns, arrival_ns, offset, record, value)
                item.seq = ~offset if isinstance(item, Event) else None
                return item
        source = found.get(self._source)
        digits = found.get(self._seq)
        # The plain case at one go; whatever is not plain is looked at closely.
        if (
            source
            and digits
            and len(source) <= MAX_SOURCE_BYTES
            and digits.isdigit()
            and len(digits) <= MAX_DIGITS
            and len(found) == len(headers)
            and self._kind not in found
        ):
            seq = int(digits)
            epoch = self._plain_epoch(found) if self._epoch in found else NO_EPOCH
            ts_ns = self._plain_ts_ns(found) if self._ts in found else timestamp_ns
            stream = found.get(self._stream, b"default")
            if (
                seq <= MAX_INT64
                and epoch <= MAX_EPOCH
                and -MAX_INT64 <= ts_ns <= MAX_INT64
                and stream
                and len(stream) <= MAX_STREAM_BYTES
            ):
                try:
                    event = Event(
                        stream.decode(),
                        source.decode(),
                        epoch,
                        seq,
                        ts_ns,
                        arrival_ns,
                        offset,
                        record,
                        value,
                        (found.get(self._type) or b"").decode(),
                    )
                    event.is_stamped = self._ts in found
                    return event
                except UnicodeDecodeError:
                    pass  # reported below, with all else that is wrong
        return self._examined(headers, timestamp_ns, arrival_ns, offset, record, value)

    def _plain_epoch(self, found: dict[str, bytes | None]) -> int:
        digits = found[self._epoch]
        if digits and digits.isdigit() and len(digits) <= MAX_DIGITS:
            return int(digits)
        return NOT_PLAIN

    def _plain_ts_ns(self, found: dict[str, bytes | None]) -> int:
        text = found[self._ts]
        if not text:
            return NOT_PLAIN
        if text.isdigit():
            return int(text) * self.unit_ns if len(text) <= MAX_DIGITS else NOT_PLAIN
        ts_ns = rfc3339.parse_ns(text)
        return NOT_PLAIN if ts_ns is None else ts_ns

    def _examined(
        self,
        headers: Headers,
        timestamp_ns: int,
        arrival_ns: int,
        offset: int,
        record: Any,
        value: Any,
    ) -> Event | Malformed:
        look = _Look(headers)
        source = look.text("source", self._source, MAX_SOURCE_BYTES, needed=True)
        seq = look.number("seq", self._seq, MAX_INT64, needed=True)
        stream = look.text("stream", self._stream, MAX_STREAM_BYTES)
        epoch = look.number("epoch", self._epoch, MAX_EPOCH)
        ts_ns = look.time_ns(self._ts, self._ts_unit, timestamp_ns)
        type_ = look.label(self._type)
        kind = look.kind(self._kind)
        stream = DEFAULT_STREAM if stream == "" else stream
        epoch = NO_EPOCH if epoch == ABSENT else epoch
        if look.faults or stream is None or source is None or epoch is None or seq is None:
            details = "; ".join(detail for _, detail in look.faults)
            reason = look.faults[0][0]
            if seq is None and self._by_time:
                details += f"; no number is needed in stream {self._named_by_time()}"
            return Malformed(
                arrival_ns, offset, reason, details, stream, source or None, epoch, seq, record
            )
        event = Event(
            stream, source, epoch, seq, ts_ns, arrival_ns, offset, record, value, type_, kind
        )
        event.is_stamped = any(name == self._ts for name, _ in headers)
        return event

    def _named_by_time(self) -> str:
        return ", ".join(f"`{name.decode()}`" for name in sorted(self._by_time)[:MAX_NAMED])

    def read_sequenced(
        self, headers: Headers, timestamp_ns: int, offset: int, record: Any, value: Any
    ) -> Event | Malformed:
        """One record of `events.sequenced`, whose Kafka timestamp is that of the
        input record. Numbers that only stages write are read without ceremony."""
        found = dict(headers)
        try:
            arrival_ns = int(found["arrival"] or b"")
            at_ns = int(found["at"] or b"")
            ref_time_ns = int(found["refTs"] or b"")
            error_ns = int(found["err"] or b"")
            segment = int(found["segment"] or b"")
            lane = int(found["lane"] or b"")
            late = (found.get("late") or b"").decode("ascii")
        except KeyError as missing:
            return _stamp_fault(offset, "stamp_missing", f"header {missing} is missing", record)
        except ValueError as wrong:
            return _stamp_fault(offset, "stamp_unreadable", str(wrong)[:200], record)
        if not (
            MIN_INT64 <= arrival_ns <= MAX_INT64
            and MIN_INT64 <= at_ns <= MAX_INT64
            and MIN_INT64 <= ref_time_ns <= MAX_INT64
            and 0 <= error_ns <= MAX_INT64
            and 0 <= segment <= MAX_INT64
            and 0 <= lane <= MAX_INT64
        ):
            return _stamp_fault(offset, "stamp_unreadable", "a number is out of range", record)
        kind = found.get(self._kind)
        event = (
            self.read(headers, timestamp_ns, arrival_ns, offset, record, value)
            if kind is None or kind.decode("latin-1") not in STAGE_KINDS
            else self._control(found, kind, ref_time_ns, arrival_ns, offset, record)
        )
        if isinstance(event, Event):
            event.at_ns = at_ns
            event.ref_time_ns = ref_time_ns
            event.error_ns = error_ns
            event.segment = segment
            event.lane = lane
            event.late = late
            if event.epoch < 0 and event.kind not in STAGE_KINDS:
                event.epoch = 0  # REORDER writes every epoch but this one
        else:
            event.at_ns = at_ns
        return event

    def read_ordered(
        self, headers: Headers, timestamp_ns: int, offset: int, record: Any, value: Any
    ) -> Event | Malformed:
        """One record of `events.ordered`. Its arrival is the instant at which it was put in
        order: nothing downstream asks for an earlier one."""
        found = dict(headers)
        try:
            at_ns = int(found["at"] or b"")
            ref_time_ns = int(found["refTs"] or b"")
            error_ns = int(found["err"] or b"")
            is_watermark = found.get(self._kind) == WATERMARK.encode()
            segment = 0 if is_watermark else int(found["segment"] or b"")
            complete_ns = int(found["complete"] or b"") if is_watermark else 0
            error_all_ns = int(found.get("errAll") or error_ns) if is_watermark else 0
            late = (found.get("late") or b"").decode("ascii")
            stream = (found.get(self._stream) or b"").decode()
        except KeyError as missing:
            return _stamp_fault(offset, "stamp_missing", f"header {missing} is missing", record)
        except ValueError as wrong:
            return _stamp_fault(offset, "stamp_unreadable", str(wrong)[:200], record)
        if not (
            MIN_INT64 <= at_ns <= MAX_INT64
            and MIN_INT64 <= ref_time_ns <= MAX_INT64
            and 0 <= error_ns <= MAX_INT64
            and 0 <= error_all_ns <= MAX_INT64
            and 0 <= segment <= MAX_INT64
        ):
            return _stamp_fault(offset, "stamp_unreadable", "a number is out of range", record)
        event: Event | Malformed
        if is_watermark:
            event = Event(stream, "", 0, 0, ref_time_ns, at_ns, offset, record, kind=WATERMARK)
            event.complete_ns = complete_ns
            event.error_all_ns = error_all_ns
        else:
            event = self.read(headers, timestamp_ns, at_ns, offset, record, value)
        if isinstance(event, Event):
            event.ref_time_ns = ref_time_ns
            event.error_ns = error_ns
            event.segment = segment
            event.late = late
            event.epoch = max(event.epoch, 0)  # REORDER writes every epoch but this one
        return event

    def _control(
        self,
        found: dict[str, bytes | None],
        kind: bytes,
        ref_time_ns: int,
        arrival_ns: int,
        offset: int,
        record: Any,
    ) -> Event | Malformed:
        try:
            stream = (found.get(self._stream) or b"").decode()
            source = (found.get(self._source) or b"").decode()
            epoch = int(found.get(self._epoch) or b"%d" % NO_EPOCH)
            seq = int(found.get(self._seq) or b"0")
        except ValueError as wrong:
            return _stamp_fault(offset, "stamp_unreadable", str(wrong)[:200], record)
        if not (0 <= seq <= MAX_INT64 and NO_EPOCH <= epoch <= MAX_EPOCH):
            return _stamp_fault(offset, "stamp_unreadable", "a number is out of range", record)
        return Event(
            stream,
            source,
            epoch,
            seq,
            ref_time_ns,
            arrival_ns,
            offset,
            record,
            kind=kind.decode(),
        )


def _stamp_fault(offset: int, reason: str, detail: str, record: Any) -> Malformed:
    remedy = "; only stages may write to this topic"
    return Malformed(0, offset, reason, detail + remedy, record=record)


WITHOUT_SEQ: Final = ", or write reorder: {without_seq: by_time}, if some sources number nothing"
NEEDED: Final = {
    "source": "write it on every record, or where records of others have it, in the stream:"
    " fields: {source: payload.NAME, seq: payload.NAME, ts: payload.NAME} (or header.NAME, key)",
    "seq": "write it on every record, or where records have it, in the stream: fields: {seq:"
    f" payload.NAME, …}}{WITHOUT_SEQ}, or reorder: {{rule: time}}, if none numbers anything",
}
"""What to do where a field is missing that has to be there."""

ABSENT: Final = -1
"""A number whose optional header is not there."""


class _Look:
    """A close look at one record: what each field says, and all that is wrong.

    A field that cannot be read is None, an optional one that is absent is "" or
    `ABSENT`."""

    def __init__(self, headers: Headers) -> None:
        self.faults: list[tuple[str, str]] = []
        self._values: dict[str, list[bytes | None]] = {}
        for name, value in headers:
            self._values.setdefault(name, []).append(value)

    def _fault(self, field: str, fault: str, detail: str) -> None:
        self.faults.append((f"{field}_{fault}", detail))

    def _one(self, field: str, name: str) -> tuple[bool, bytes | None]:
        """(is there, value); a value that its copies dispute is not there."""
        values = self._values.get(name)
        if values is None:
            return False, None
        if len(values) > 1:
            self._fault(
                field,
                "repeated",
                f"header `{name}` stands there {len(values)} times; once is enough",
            )
            if any(value != values[0] for value in values):
                return False, None
        return True, values[0]

    def text(self, field: str, name: str, max_bytes: int, *, needed: bool = False) -> str | None:
        there, value = self._one(field, name)
        if not there:
            return self._absent(field, name, needed=needed)
        if not value:
            self._fault(field, "empty", f"header `{name}` is empty; write a name or leave it out")
            return None
        if len(value) > max_bytes:
            detail = f"header `{name}` has {len(value)} bytes; write at most {max_bytes}"
            self._fault(field, "huge", detail)
            return None
        return self._decoded(field, name, value)

    def _absent(self, field: str, name: str, *, needed: bool) -> str | None:
        if name in self._values:  # but its copies disagree
            return None
        if needed:
            self._fault(field, "missing", f"header `{name}` is missing; {NEEDED[field]}")
            return None
        return ""

    def _decoded(self, field: str, name: str, value: bytes) -> str | None:
        try:
            return value.decode()
        except UnicodeDecodeError:
            detail = f"header `{name}` is {_shown(value)}; write UTF-8"
            self._fault(field, "undecodable", detail)
            return None

    def number(self, field: str, name: str, high: int, *, needed: bool = False) -> int | None:
        there, value = self._one(field, name)
        if not there:
            return None if self._absent(field, name, needed=needed) is None else ABSENT
        remedy = f"write ASCII digits, 0 to {high}"
        if not value:
            self._fault(field, "empty", f"header `{name}` is empty; {remedy}")
            return None
        fault = "" if value.isdigit() else "not_integer"
        if value[:1] == b"-" and value[1:].isdigit():
            fault = "negative"
        number = 0 if fault else _digits(value)
        if number is None or number > high:
            fault = "huge"
        if fault:
            self._fault(field, fault, f"header `{name}` is {_shown(value)}; {remedy}")
            return None
        return number

    def time_ns(self, name: str, unit: str, otherwise_ns: int) -> int:
        there, value = self._one("ts", name)
        if not there:
            return otherwise_ns
        remedy = f"write an integer in {unit}, or RFC 3339 without leap seconds"
        if not value:
            self._fault("ts", "empty", f"header `{name}` is empty; {remedy}")
            return otherwise_ns
        digits = value[1:] if value[:1] == b"-" else value
        ts_ns: int | None
        if digits.isdigit():
            amount = _digits(digits)
            ts_ns = MAX_INT64 + 1 if amount is None else amount * UNIT_NS[unit]
            ts_ns = ts_ns if digits is value else -ts_ns
        else:
            ts_ns = rfc3339.parse_ns(value)
        if ts_ns is None:
            self._fault("ts", "unreadable", f"header `{name}` is {_shown(value)}; {remedy}")
            return otherwise_ns
        if not -MAX_INT64 <= ts_ns <= MAX_INT64:
            detail = f"header `{name}` is {_shown(value)}; write a time between 1678 and 2261"
            self._fault("ts", "huge", detail)
            return otherwise_ns
        return ts_ns

    def label(self, name: str) -> str:
        _, value = self._one("type", name)
        return (self._decoded("type", name, value) or "") if value else ""

    def kind(self, name: str) -> str:
        there, value = self._one("kind", name)
        if not there:
            return DATA
        kind = (value or b"").decode("latin-1")
        if kind not in PRODUCER_KINDS:
            detail = f"header `{name}` is {_shown(value or b'')}; write heartbeat, bye or no header"
            self._fault("kind", "unknown", detail)
        return kind


def _digits(value: bytes) -> int | None:
    """The number that ASCII digits spell, None if there are too many of them."""
    digits = value.lstrip(b"0")
    if len(digits) > MAX_DIGITS:
        return None
    return int(digits or b"0")


def _shown(value: bytes) -> str:
    text = repr(value[:SHOWN_BYTES])[2:-1]
    return f"`{text}`" if len(value) <= SHOWN_BYTES else f"`{text}…` ({len(value)} bytes)"
