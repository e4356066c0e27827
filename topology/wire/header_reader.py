"""Record headers as events, by the header contract.

Headers, their names and ranges are in `inorder.contract`. Values are ASCII; numbers are plain
digits, without sign (but for `ts`), space or underscore. Without `epoch` the epoch is left to
REORDER (`NO_EPOCH`), without `ts` the record's own timestamp counts; `ts` must fit int64 as
nanoseconds, and so must its negative: -2^63 is `huge`. Other headers are ignored and carried along.
What is not plain goes to `topology.wire.checker`; the place of a record is its offset. A repeated
header counts if all its values agree.

`read_sequenced` and `read_ordered` read what `header_writer` wrote to the derived topics; their
faults are `stamp_missing` and `stamp_unreadable`.

Cost: one pass; a record without fault is read without looking at it twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from inorder import rfc3339
from inorder.contract import (
    MAX_EPOCH,
    MAX_INT64,
    MAX_SOURCE_BYTES,
    MAX_STREAM_BYTES,
    MIN_INT64,
    UNIT_NS,
    Contract,
)
from topology.model.event import (
    BLOCKED,
    DEAD,
    NO_EPOCH,
    PROGRESS,
    UNBLOCKED,
    WATERMARK,
    Event,
)
from topology.model.outcome import Malformed
from topology.wire.checker import (
    MAX_DIGITS,
    Checker,
    Look,
    made_out,
    number_of,
    one_header,
    telling,
)
from topology.wire.reasons import WireFault, fault_of, times_in

Headers = Sequence[tuple[str, bytes | None]]

NOT_PLAIN: Final = 2**63
"""Above every bound: sends the record to the close look."""

STAGE_KINDS: Final = frozenset({BLOCKED, DEAD, PROGRESS, UNBLOCKED})
SEQUENCED: Final = ("at", "refTs", "arrival", "err", "segment", "lane")
ORDERED: Final = ("at", "refTs", "err", "segment")
MARKED: Final = ("at", "refTs", "complete", "err")
"""The stamps of a watermark. Those from `err` on are not negative."""


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
        self._checker = Checker(self.by_time, mixed)
        pairs = names._asdict().items()
        self._places = {field: f"header `{name}`" for field, name in pairs if field != "sig"}
        self._times = times_in(contract.ts_unit)

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
        source = found.get(self._source)
        digits = found.get(self._seq)
        stream = found.get(self._stream, b"default")
        is_mixed = False
        if offset >= 0 and (self._by_time or self._mixed):
            is_mixed = stream in self._mixed and self._seq not in found
            if is_mixed or stream in self._by_time:
                digits = b"%d" % offset
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
                        ~seq if is_mixed else seq,
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
        given: dict[str, object] = {}
        faults: list[WireFault] = []
        for field, place in self._places.items():
            name = getattr(self.names, field)
            same = [content or b"" for each, content in headers if each == name]
            given[field] = one_header(field, same, place, faults)
        values = {field: made_out(field, each) for field, each in given.items()}
        values["ts"] = self._time(values["ts"])
        look = Look(values, faults, self._places, telling(given), self._times)
        return self._checker.read(look, offset, timestamp_ns, arrival_ns, offset, record, value)

    def _time(self, value: object) -> object:
        """The nanoseconds of a text that is a time."""
        if not isinstance(value, str):
            return value
        number = number_of(value)
        if isinstance(number, int):
            return number * self.unit_ns
        ts_ns = rfc3339.parse_ns(value.encode())
        return value if ts_ns is None else ts_ns

    def read_sequenced(
        self, headers: Headers, timestamp_ns: int, offset: int, record: Any, value: Any
    ) -> Event | Malformed:
        """One record of `events.sequenced`, whose Kafka timestamp is that of the
        input record. Numbers that only stages write are read without ceremony."""
        found = dict(headers)
        stamps = _stamps(found, SEQUENCED)
        if isinstance(stamps, WireFault):
            return _dead(offset, stamps, record)
        at_ns, ref_time_ns, arrival_ns, error_ns, segment, lane = stamps
        kind = found.get(self._kind)
        event: Event | Malformed
        if kind is None or kind.decode("latin-1") not in STAGE_KINDS:
            event = self.read(headers, timestamp_ns, arrival_ns, offset, record, value)
        else:
            event = self._control(found, kind, ref_time_ns, arrival_ns, offset, record)
        event.at_ns = at_ns
        if isinstance(event, Event):
            event.ref_time_ns = ref_time_ns
            event.error_ns = error_ns
            event.segment = segment
            event.lane = lane
            event.late = _late(found)
            if event.epoch < 0 and event.kind not in STAGE_KINDS:
                event.epoch = 0  # REORDER writes every epoch but this one
        return event

    def read_ordered(
        self, headers: Headers, timestamp_ns: int, offset: int, record: Any, value: Any
    ) -> Event | Malformed:
        """One record of `events.ordered`. Its arrival is the instant at which it was put in
        order: nothing downstream asks for an earlier one."""
        found = dict(headers)
        kind = found.get(self._kind)
        is_watermark = kind == WATERMARK.encode()
        marked = (*MARKED, "errAll") if "errAll" in found else MARKED
        stamps = _stamps(found, marked if is_watermark else ORDERED)
        if isinstance(stamps, WireFault):
            return _dead(offset, stamps, record)
        at_ns, ref_time_ns = stamps[:2]
        event: Event | Malformed
        if is_watermark and kind is not None:
            said = {self._stream: found.get(self._stream)}
            event = self._control(said, kind, ref_time_ns, at_ns, offset, record)
        else:
            event = self.read(headers, timestamp_ns, at_ns, offset, record, value)
        if isinstance(event, Event):
            event.ref_time_ns = ref_time_ns
            if is_watermark:
                event.complete_ns, event.error_ns = stamps[2:4]
                event.error_all_ns = stamps[-1]
            else:
                event.error_ns, event.segment = stamps[2:]
            event.late = _late(found)
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
        except ValueError:
            epoch = seq = NOT_PLAIN
        if not (0 <= seq <= MAX_INT64 and NO_EPOCH <= epoch <= MAX_EPOCH):
            return _dead(offset, fault_of("stamp", "unreadable", "a header"), record)
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


def _stamps(found: dict[str, bytes | None], names: Sequence[str]) -> list[int] | WireFault:
    """The numbers that a stage wrote, in the order of their names."""
    try:
        numbers = [int(found[name] or b"") for name in names]
        _late(found)
    except KeyError as missing:
        return fault_of("stamp", "missing", f"header `{missing.args[0]}`")
    except ValueError:
        numbers = [NOT_PLAIN] * len(names)
    least = min(numbers[names.index("err") :])
    if least < 0 or min(numbers) < MIN_INT64 or max(numbers) > MAX_INT64:
        return fault_of("stamp", "unreadable", f"one of the headers {', '.join(names)}")
    return numbers


def _late(found: dict[str, bytes | None]) -> str:
    late = found.get("late")
    return late.decode("ascii") if late else ""


def _dead(offset: int, fault: WireFault, record: Any) -> Malformed:
    return Malformed(0, offset, fault.reason, fault.detail, record=record)
