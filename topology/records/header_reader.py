"""Reads the headers of records as events, by the header contract.

`inorder.contract` defines the headers, their names and their ranges. Texts are UTF-8. Numbers are
plain ASCII digits without spaces or underscores; only `ts` may have a sign or be RFC 3339 text. A
record without an epoch has `NO_EPOCH` until REORDER assigns an epoch. The record's own timestamp
replaces a missing `ts`. `ts` and its negative must both fit int64 as nanoseconds, so -2^63 is
`huge`. Headers that are not in the contract are ignored and passed on. A contract header that
occurs more than once is a fault. In a stream without sequence numbers, the offset of the record
replaces the number.

`HeaderReader.read` builds the event of a plain record directly, in one pass. All other records go
through `topology.records.checker`.

`read_sequenced` and `read_ordered` read the derived topics, which `header_writer` has written.
These may also have the faults `stamp_missing` and `stamp_unreadable`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from inorder import rfc3339
from inorder.contract import (
    DEFAULT_STREAM,
    MAX_EPOCH,
    MAX_INT64,
    MAX_SOURCE_BYTES,
    MAX_STREAM_BYTES,
    MIN_INT64,
    UNIT_NS,
    Contract,
)
from topology.base.event import BLOCKED, DEAD, NO_EPOCH, PROGRESS, UNBLOCKED, WATERMARK, Event
from topology.base.outcome import Malformed
from topology.records.checker import (
    AS_WRITTEN,
    MAX_DIGITS,
    Look,
    Reading,
    decode_field,
    find_header,
    number_of,
    to_ns,
)
from topology.records.reasons import WireFault, describe_times, fault_of

Headers = Sequence[tuple[str, bytes | None]]

NOT_PLAIN: Final = 2**63
"""A number above every bound; a record with it is not plain and goes through the full check."""

STAGE_KINDS: Final = frozenset(kind.encode() for kind in (BLOCKED, DEAD, PROGRESS, UNBLOCKED))
MERGE_KINDS: Final = frozenset({WATERMARK.encode()})
SIGNED: Final = ("at", "refTs", "arrival", "complete")
"""The headers written by stages whose values may be negative."""
SEQUENCED: Final = ("at", "refTs", "arrival", "err", "segment", "lane")
ORDERED: Final = ("at", "refTs", "err", "segment")
MARKED: Final = ("at", "refTs", "complete", "err")
"""The headers that a watermark must have; it may also have `errAll`."""


class HeaderReader:
    """A reader of the records of all streams that share one header contract.

    `reading` is used for input topics only, because every record of a derived topic has a number.
    """

    def __init__(self, contract: Contract, reading: Reading = AS_WRITTEN) -> None:
        self.names = contract.names()
        self.unit_ns = UNIT_NS[contract.ts_unit]
        self.by_time = reading.by_time
        self._reading = reading._replace(unnamed=DEFAULT_STREAM)
        self._fields = self.names[:7]
        self._by_time = frozenset(name.encode() for name in reading.by_time)
        self._mixed = frozenset(name.encode() for name in reading.mixed)
        pairs = self.names._asdict().items()
        self._places = {field: f"header `{name}`" for field, name in pairs if field != "sig"}
        self._times = describe_times(contract.ts_unit)

    def read(
        self,
        headers: Headers,
        timestamp_ns: int,
        arrival_ns: int,
        offset: int,
        record: Any,
        value: Any,
    ) -> Event | Malformed:
        """Return the event or dead letter of a record of an input topic.

        `timestamp_ns` is the record's own timestamp.
        """
        found = dict(headers)
        of_source, of_seq, of_ts, of_type, of_epoch, of_stream, of_kind = self._fields
        source = found.get(of_source)
        digits = found.get(of_seq)
        stream = found.get(of_stream, b"default")
        is_mixed = False
        if offset >= 0 and (self._by_time or self._mixed):
            is_mixed = stream in self._mixed and of_seq not in found
            if is_mixed or stream in self._by_time:
                digits = b"%d" % offset
        if (
            source
            and digits
            and len(source) <= MAX_SOURCE_BYTES
            and digits.isdigit()
            and len(digits) <= MAX_DIGITS
            and len(found) == len(headers)
            and of_kind not in found
        ):
            seq = int(digits)
            epoch = _parse_plain_number(found[of_epoch]) if of_epoch in found else NO_EPOCH
            ts_ns = self._parse_plain_ns(found[of_ts]) if of_ts in found else timestamp_ns
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
                        (found.get(of_type) or b"").decode(),
                    )
                    event.is_stamped = of_ts in found
                    return event
                except UnicodeDecodeError:
                    pass  # The full check reports this fault together with all others.
        look = self._look(headers)
        return look.event(self._reading, offset, timestamp_ns, arrival_ns, offset, record, value)

    def _parse_plain_ns(self, text: bytes | None) -> int:
        if not text:
            return NOT_PLAIN
        if text.isdigit():
            return int(text) * self.unit_ns if len(text) <= MAX_DIGITS else NOT_PLAIN
        ts_ns = rfc3339.parse_ns(text)
        return NOT_PLAIN if ts_ns is None else ts_ns

    def _look(self, headers: Headers) -> Look:
        """Return the raw fields of the record and the faults of its headers, for the full check."""
        faults: list[WireFault] = []
        given = {
            field: find_header(field, name, headers, place, faults)
            for name, (field, place) in zip(self._fields, self._places.items(), strict=True)
        }
        values = {field: decode_field(field, each) for field, each in given.items()}
        ts = values["ts"]
        values["ts"] = to_ns(number_of(ts) if isinstance(ts, str) else ts, self.unit_ns)
        return Look(values, faults, given, self._places, self._times)

    def read_sequenced(
        self, headers: Headers, timestamp_ns: int, offset: int, record: Any, value: Any
    ) -> Event | Malformed:
        """Return the event in a record of `events.sequenced`, or a dead letter.

        The record's Kafka timestamp is that of the record on the input topic.
        """
        return self._read_derived(
            SEQUENCED, STAGE_KINDS, headers, timestamp_ns, offset, record, value
        )

    def read_ordered(
        self, headers: Headers, timestamp_ns: int, offset: int, record: Any, value: Any
    ) -> Event | Malformed:
        """Return the event in a record of `events.ordered`, or a dead letter.

        The event's arrival time is the time at which MERGE emitted it. No later operator needs an
        earlier time.
        """
        return self._read_derived(
            ORDERED, MERGE_KINDS, headers, timestamp_ns, offset, record, value
        )

    def _read_derived(
        self,
        names: Sequence[str],
        kinds: frozenset[bytes],
        headers: Headers,
        timestamp_ns: int,
        offset: int,
        record: Any,
        value: Any,
    ) -> Event | Malformed:
        """Return the event in a record of a derived topic, or a dead letter.

        `names` are the headers that a stage must have written, and `kinds` are the kinds of its
        control records.
        """
        found = dict(headers)
        kind = found.get(self.names.kind)
        is_watermark = kinds is MERGE_KINDS and kind in kinds
        if is_watermark:
            names = (*MARKED, "errAll") if "errAll" in found else MARKED
        stamps = _read_stamps(found, names)
        if isinstance(stamps, WireFault):
            return Malformed(0, offset, *stamps, record=record)
        arrival_ns = stamps.setdefault("arrival", stamps["at"])
        if kind is not None and kind in kinds:
            item = self._read_control(found, stamps, offset, record)
        else:
            item = self.read(headers, timestamp_ns, arrival_ns, offset, record, value)
        item.at_ns = stamps["at"]
        if isinstance(item, Event):
            item.ref_time_ns = stamps["refTs"]
            item.error_ns = stamps["err"]
            if "late" in found:
                item.late = _late(found)
            if is_watermark:
                item.complete_ns = stamps["complete"]
                item.error_all_ns = stamps.get("errAll", item.error_ns)
            else:
                item.segment = stamps["segment"]
                item.lane = stamps.get("lane", 0)
            if item.epoch < 0 and kind not in STAGE_KINDS:
                item.epoch = 0  # REORDER writes an epoch unless it is 0.
        return item

    def _read_control(
        self, found: Mapping[str, bytes | None], stamps: dict[str, int], offset: int, record: Any
    ) -> Event | Malformed:
        """Return the control event in a record that a stage has written, or a dead letter."""
        names = self.names
        kind = (found[names.kind] or b"").decode()
        if kind == WATERMARK:  # A watermark has no source, so only its stream is read.
            found = {names.stream: found.get(names.stream)}
        try:
            stream = (found.get(names.stream) or b"").decode()
            source = (found.get(names.source) or b"").decode()
            epoch = int(found.get(names.epoch) or b"%d" % NO_EPOCH)
            seq = int(found.get(names.seq) or b"0")
        except ValueError:
            epoch = seq = NOT_PLAIN
        if not (0 <= seq <= MAX_INT64 and NO_EPOCH <= epoch <= MAX_EPOCH):
            return Malformed(0, offset, *fault_of("stamp", "unreadable", "a header"), record=record)
        ref_time_ns, arrival_ns = stamps["refTs"], stamps["arrival"]
        return Event(stream, source, epoch, seq, ref_time_ns, arrival_ns, offset, record, kind=kind)


def _parse_plain_number(digits: bytes | None) -> int:
    return int(digits) if digits and digits.isdigit() and len(digits) <= MAX_DIGITS else NOT_PLAIN


def _late(found: Mapping[str, bytes | None]) -> str:
    return (found.get("late") or b"").decode("ascii")


def _read_stamps(
    found: Mapping[str, bytes | None], names: Sequence[str]
) -> dict[str, int] | WireFault:
    """Return the numbers in these headers of a stage, or a fault if one is missing or bad."""
    try:
        stamps = {name: int(found[name] or b"") for name in names}
        if "late" in found:
            _late(found)
    except KeyError as missing:
        return fault_of("stamp", "missing", f"header `{missing.args[0]}`")
    except ValueError:
        stamps = {"": NOT_PLAIN}
    numbers = stamps.values()
    if min(numbers) < 0 or max(numbers) > MAX_INT64:
        least = {name: MIN_INT64 if name in SIGNED else 0 for name in stamps}
        if any(not least[name] <= number <= MAX_INT64 for name, number in stamps.items()):
            return fault_of("stamp", "unreadable", f"one of the headers {', '.join(names)}")
    return stamps
