"""Turns Kafka records into events or, with a reason, into dead letters.

If the source and sequence number of a dead letter could be read, an event takes its place in the
sequence. So the dead letter leaves no gap. In an ordered topic no such event is needed.

The active codec (`codec`) reads whole batches. It passes irregular records to the method `one` of
the inlet, which can read any record.

An input record that exceeds `topics.max_record_bytes` or has more than `MAX_HEADERS` headers
becomes a dead letter. Otherwise it might not fit into output topics, whose record size is limited.
The sizes of key, value and headers are added up, with the maximum overhead of each header.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import NoneType
from typing import Any, Final

from agents.stage.arrival import NS_PER_MS, ArrivalClock
from codec import EventReader, plain
from codec.batches import Record as PlainRecord
from codec.face import MAX_HEADERS, ORDERED, RAW, SEQUENCED, Form, MappedValues
from codec.values.registered import RegisteredSchemas
from inorder.contract import UNIT_NS
from topology.base.encoded import Encoded, ReadEncoded
from topology.base.event import Event
from topology.base.outcome import Malformed, make_dead_letter
from topology.records.checker import digest_of_id
from topology.records.field_reader import FieldReader
from topology.records.header_reader import HeaderReader
from topology.records.reasons import HUGE, fault_of
from topology.records.signed import SignatureCheck
from topology.stage.stage import make_placeholder

Record = Any
"""A record of `agents.kafka.partition_queue`, or one that was stored in the state and restored."""

NO_CLOCK: Final = 0
HEADER_FRAMING_BYTES: Final = 16
"""Maximum overhead of a header in bytes, in a Kafka record and in a changelog's msgpack."""

MAX_CHARACTER_BYTES: Final = 4
"""Maximum number of UTF-8 bytes per character of a header's name."""


@dataclass(slots=True)
class InletBatch:
    """The content of a batch of records: events in log order, and dead letters."""

    events: list[Event] = field(default_factory=list)
    dead: list[Malformed] = field(default_factory=list)

    def extend(self, other: InletBatch) -> InletBatch:
        """Add the content of another batch, and return this one."""
        self.events += other.events
        self.dead += other.dead
        return self

    def add(self, item: Event | Malformed) -> None:
        self.add_without_place(item)
        if isinstance(item, Malformed):
            place = make_placeholder(item)
            if place is not None:
                self.events.append(place)

    def add_without_place(self, item: Event | Malformed) -> None:
        """Add an item of a derived topic, where a dead letter leaves no gap."""
        if isinstance(item, Event):
            self.events.append(item)
        else:
            self.dead.append(item)


class Inlet:
    """The reader of a topic's records into events.

    Attributes:
        payloads: The readers of the values that queries need, by stream.
        registered: The registered schemas of the records, which must be fetched before the records
            are read.
    """

    registered: tuple[RegisteredSchemas, ...] = ()
    payloads: Mapping[str, ReadEncoded] | None = None

    def read(self, records: Sequence[Record], clock: ArrivalClock) -> InletBatch:
        """Return the events and dead letters of consecutive records, and move the clock."""
        read = InletBatch()
        self._read(records, clock, read)
        self._wrap_payloads(read.events)
        return read

    def read_again(self, records: Sequence[Record]) -> list[Event]:
        """Return the events of buffered records that are read again, in log order.

        Records that yield no event are omitted. The events have no arrival times, because these are
        stored elsewhere.
        """
        read = InletBatch()
        self._read_again(records, read)
        self._wrap_payloads(read.events)
        return read.events

    def _read(self, records: Sequence[Record], clock: ArrivalClock, read: InletBatch) -> None:
        raise NotImplementedError

    def _read_again(self, records: Sequence[Record], read: InletBatch) -> None:
        self._read(records, ArrivalClock(0), read)

    def id_in(self, record: Record) -> str | None:
        """Return the id of a record that was read as an event, or None if it has none."""
        return None

    def _wrap_payloads(self, events: list[Event]) -> None:
        payloads = self.payloads
        if payloads is not None:
            for event in events:
                reads = payloads.get(event.stream)
                if reads is not None and isinstance(event.value, bytes):
                    event.value = Encoded.of(event.value, reads)


class RawInlet(Inlet):
    """The reader of input topics: the producers' header contract, arrival times and signatures.

    With `check`, the codec first decodes all records of a batch, and then `check` verifies their
    signatures in log order.
    """

    def __init__(
        self, reader: HeaderReader, max_record_bytes: int, check: SignatureCheck | None = None
    ) -> None:
        self._reader = reader
        self._spilled: type[Any] = NoneType
        self._ts_name = reader.names.ts
        self._max_record_bytes = max_record_bytes
        self._check = check
        form = Form(RAW, reader.names, reader.unit_ns, reader.by_time, max_record_bytes)
        self._events = EventReader(form, self.one)

    def _read(self, records: Sequence[Record], clock: ArrivalClock, read: InletBatch) -> None:
        if clock.goes_on(records):
            self._read_records(records, clock, read)
            clock.record_batch(records, read.events, self._ts_name)
        else:
            items = self._read_items(records, ArrivalClock(0))
            clock.judge_all(records, items, time.time_ns(), self._ts_name)
            for item in items:
                read.add(item)

    def _read_again(self, records: Sequence[Record], read: InletBatch) -> None:
        self._read_records(records, ArrivalClock(0), read, has_past=True)

    def _read_records(
        self,
        records: Sequence[Record],
        clock: ArrivalClock,
        read: InletBatch,
        *,
        has_past: bool = False,
    ) -> None:
        if self._check is None:
            self._events.read(records, clock, time.time_ns(), read.events, read.add)
        else:
            for item in self._read_items(records, clock, has_past=has_past):
                read.add(item)

    def _read_items(
        self, records: Sequence[Record], clock: ArrivalClock, *, has_past: bool = False
    ) -> list[Event | Malformed]:
        """Return one item for each record.

        With `has_past`, records with an offset below 0 come from a history. They have no
        signatures, because the stage itself made them (`agents.restore.history`).
        """
        items: list[Any] = []
        self._events.read(records, clock, time.time_ns(), items, items.append)
        if self._check is not None:
            passed = self._check.admit
            for at, (record, item) in enumerate(zip(records, items, strict=True)):
                is_own = has_past and item.offset < 0
                if not (is_own or isinstance(record, self._spilled)):
                    items[at] = passed(item, record.headers, record.value)
        return items

    def one(self, record: Record, arrival_ns: int) -> Event | Malformed:
        """Read one record without the codec's fast path."""
        stamp_ns = record.timestamp * NS_PER_MS if record.timestamp >= 0 else arrival_ns
        item = self._reader.read(
            record.headers, stamp_ns, arrival_ns, record.offset, record, record.value
        )
        return self._limit_size(item)

    def _limit_size(self, item: Event | Malformed) -> Event | Malformed:
        """Return the item, or a dead letter if its record is too large."""
        if isinstance(item, Event):
            record = item.record
            count, size = len(record.headers), largest_size(record)
            excess = ""
            if count > MAX_HEADERS:
                excess = f"{count} headers, and {MAX_HEADERS} are allowed"
            elif size > self._max_record_bytes:
                excess = f"{size} bytes, and {self._max_record_bytes} are allowed"
            if excess:
                fault = fault_of("record", HUGE, "the record", shown=excess)
                return make_dead_letter(item, item.arrival_ns, fault.reason, fault.detail)
        return item


class MappedInlet(RawInlet):
    """The reader of input topics with foreign records.

    The mapping (`topology.records.field_reader`) gives each event the headers of the contract,
    which all later steps read and write. Records of the type `spilled` were mapped and checked
    before. The type is a parameter, because the compiled modules do not import msgspec. `short` is
    the codec's fast path, if the mapping has one.
    """

    def __init__(
        self,
        fields: FieldReader,
        reader: HeaderReader,
        max_record_bytes: int,
        partition: int,
        registered: tuple[RegisteredSchemas, ...] = (),
        short: MappedValues | None = None,
        spilled: type[Any] = NoneType,
        check: SignatureCheck | None = None,
    ) -> None:
        super().__init__(reader, max_record_bytes, check)
        self._spilled = spilled
        self.registered = registered
        self._fields = fields
        self._partition = partition
        unit_ns = UNIT_NS[fields.fields.ts_unit]
        form = Form(RAW, reader.names, unit_ns, reader.by_time, max_record_bytes, mapped=short)
        self._events = (plain.EventReader if short is None else EventReader)(form, self.one)
        if fields.fields.ts.place == "timestamp":
            # The timestamp may be the broker's, so it is no evidence about a broker's clock.
            self._ts_name = ""

    def one(self, record: Record, arrival_ns: int) -> Event | Malformed:
        if isinstance(record, self._spilled):
            item = super().one(record, arrival_ns)
            id_ = self.id_in(record)
            if id_ is not None and isinstance(item, Event) and self._fields.own_seq(item) is None:
                item.digest = digest_of_id(item.source, id_)
            return item
        headers, key, value = record.headers, record.key, record.value
        stamp_ns = record.timestamp * NS_PER_MS if record.timestamp >= 0 else arrival_ns
        item = self._fields.read(
            headers, key, value, stamp_ns, arrival_ns, record.offset, record, self._partition
        )
        if isinstance(item, Event):
            item.record = PlainRecord(
                record.offset, record.timestamp, record.timestamp_type, key, value,
                self._fields.headers(item, headers),
            )  # fmt: skip
        return self._limit_size(item)

    def id_in(self, record: Record) -> str | None:
        return self._fields.find_id(record.headers, record.key, record.value)


def largest_size(record: Record) -> int:
    """Return the maximum size in bytes of the record wherever it is written again."""
    key, value = record.key, record.value
    size = (len(key) if key else 0) + (len(value) if value else 0)
    for name, content in record.headers:
        size += HEADER_FRAMING_BYTES + MAX_CHARACTER_BYTES * len(name)
        if content:
            size += len(content)
    return size


class SequencedInlet(Inlet):
    """The reader of a derived topic, whose headers have corrected timestamps.

    It raises UnknownPartition if a number in the header `lane` is not below `upstream_partitions`:
    then an upstream topic has grown since the start.
    """

    def __init__(self, reader: HeaderReader, upstream_partitions: int) -> None:
        self._reader = reader
        self._upstream_partitions = upstream_partitions
        form = Form(
            SEQUENCED, reader.names, reader.unit_ns, upstream_partitions=upstream_partitions
        )
        self._events = EventReader(form, self.one)

    def _read(self, records: Sequence[Record], clock: ArrivalClock, read: InletBatch) -> None:
        self._events.read(records, clock, NO_CLOCK, read.events, read.add)

    def one(self, record: Record, _: int = NO_CLOCK) -> Event | Malformed:
        item = self._reader.read_sequenced(
            record.headers, record.timestamp * NS_PER_MS, record.offset, record, record.value
        )
        if isinstance(item, Event) and item.lane >= self._upstream_partitions:
            raise UnknownPartition(
                f"offset {record.offset} comes from upstream partition {item.lane}, but there were"
                f" {self._upstream_partitions} when this worker started; restart it"
            )
        return item


class OrderedInlet(Inlet):
    """The reader of an ordered topic: each stream is in one partition, with its ordering clock."""

    def __init__(self, reader: HeaderReader) -> None:
        self._reader = reader
        self._events = EventReader(Form(ORDERED, reader.names, reader.unit_ns), self.one)

    def _read(self, records: Sequence[Record], clock: ArrivalClock, read: InletBatch) -> None:
        self._events.read(records, clock, NO_CLOCK, read.events, read.add_without_place)

    def one(self, record: Record, _: int = NO_CLOCK) -> Event | Malformed:
        return self._reader.read_ordered(
            record.headers, record.timestamp * NS_PER_MS, record.offset, record, record.value
        )


class UnknownPartition(Exception):
    """An upstream topic has grown since the start."""
