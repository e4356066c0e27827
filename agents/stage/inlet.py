"""From Kafka records to what a stage takes: events, and dead letters with the reason.

A dead letter whose source and number could be read also yields the event that takes its
place in the sequence, so that it leaves no hole.

The codec at work (`codec`) reads whole batches; what it does not find plain it hands to the inlet,
whose `one` is the general path.

A record above `topics.max_record_bytes`, or with more than `MAX_HEADERS` headers, is dead, as what
is written on must fit into topics of known bounds. Key, value and headers count together, with the
most that their framing takes.
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
from topology.flow.stage import placeholder
from topology.model.encoded import Encoded, ReadEncoded
from topology.model.event import Event
from topology.model.outcome import Malformed, dead_letter
from topology.wire.field_reader import FieldReader
from topology.wire.header_reader import HeaderReader
from topology.wire.reasons import HUGE, fault_of
from topology.wire.signed import SignatureCheck

Record = Any
"""As `agents.kafka.partition_queue` has it, or a spilled one read back."""

NO_CLOCK: Final = 0
HEADER_FRAMING_BYTES: Final = 16
"""At most, in a Kafka record and in a changelog's msgpack alike."""

MAX_CHARACTER_BYTES: Final = 4
"""A character of a header's name, in UTF-8."""


@dataclass(slots=True)
class Read:
    """The content of a batch of records: events in log order, and dead letters."""

    events: list[Event] = field(default_factory=list)
    dead: list[Malformed] = field(default_factory=list)

    def add(self, item: Event | Malformed) -> None:
        self.add_without_place(item)
        if isinstance(item, Malformed):
            place = placeholder(item)
            if place is not None:
                self.events.append(place)

    def add_without_place(self, item: Event | Malformed) -> None:
        """Where the sequence is settled, a dead letter leaves no hole in it."""
        if isinstance(item, Event):
            self.events.append(item)
        else:
            self.dead.append(item)


class Inlet:
    """The way from the records of a topic to events. `payloads`: by stream, what reads the values
    that queries ask for. `registered`: the schemas by which records are read, to be filled
    before."""

    registered: tuple[RegisteredSchemas, ...] = ()
    payloads: Mapping[str, ReadEncoded] | None = None

    def read(self, records: Sequence[Record], clock: ArrivalClock) -> Read:
        """Read a stretch of the log, in order, and move the clock."""
        read = Read()
        self._read(records, clock, read)
        self._put_readers(read.events)
        return read

    def read_again(self, records: Sequence[Record]) -> list[Event]:
        """Read held records, in log order, as far as they still yield events. When they arrived is
        noted elsewhere: these do not have it."""
        read = Read()
        self._read_again(records, read)
        self._put_readers(read.events)
        return read.events

    def _read(self, records: Sequence[Record], clock: ArrivalClock, read: Read) -> None:
        raise NotImplementedError

    def _read_again(self, records: Sequence[Record], read: Read) -> None:
        self._read(records, ArrivalClock(0), read)

    def _put_readers(self, events: list[Event]) -> None:
        payloads = self.payloads
        if payloads is not None:
            for event in events:
                reads = payloads.get(event.stream)
                if reads is not None and isinstance(event.value, bytes):
                    event.value = Encoded.of(event.value, reads)


class RawInlet(Inlet):
    """Input topics: the header contract of producers, append time, and with `check` who sent it.

    What is checked goes through both: the codec's short path, then the check, in log order."""

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

    def _read(self, records: Sequence[Record], clock: ArrivalClock, read: Read) -> None:
        if clock.goes_on(records):
            self._read_on(records, clock, read)
            clock.went_on(records, read.events, self._ts_name)
        else:
            items = self._items(records, ArrivalClock(0))
            clock.judge_all(records, items, time.time_ns(), self._ts_name)
            for item in items:
                read.add(item)

    def _read_again(self, records: Sequence[Record], read: Read) -> None:
        self._read_on(records, ArrivalClock(0), read, has_past=True)

    def _read_on(
        self, records: Sequence[Record], clock: ArrivalClock, read: Read, *, has_past: bool = False
    ) -> None:
        if self._check is None:
            self._events.read(records, clock, time.time_ns(), read.events, read.add)
        else:
            for item in self._items(records, clock, has_past=has_past):
                read.add(item)

    def _items(
        self, records: Sequence[Record], clock: ArrivalClock, *, has_past: bool = False
    ) -> list[Event | Malformed]:
        """One for each record. `has_past`: those with an offset below 0 are of a history. The
        stage has made their records itself, unsigned (agents.stage.history)."""
        items: list[Any] = []
        self._events.read(records, clock, time.time_ns(), items, items.append)
        if self._check is not None:
            passed = self._check.passed
            for at, (record, item) in enumerate(zip(records, items, strict=True)):
                is_own = has_past and item.offset < 0
                if not (is_own or isinstance(record, self._spilled)):
                    items[at] = passed(item, record.headers, record.value)
        return items

    def one(self, record: Record, arrival_ns: int) -> Event | Malformed:
        """Go the general path, for a record that arrived then."""
        stamp_ns = record.timestamp * NS_PER_MS if record.timestamp >= 0 else arrival_ns
        item = self._reader.read(
            record.headers, stamp_ns, arrival_ns, record.offset, record, record.value
        )
        return self._bounded(item)

    def _bounded(self, item: Event | Malformed) -> Event | Malformed:
        """The item, or a dead letter if its record is too large."""
        if isinstance(item, Event):
            record = item.record
            count, size = len(record.headers), largest_size(record)
            told = ""
            if count > MAX_HEADERS:
                told = f"{count} headers, and {MAX_HEADERS} are allowed"
            elif size > self._max_record_bytes:
                told = f"{size} bytes, and {self._max_record_bytes} are allowed"
            if told:
                fault = fault_of("record", HUGE, "the record", told=told)
                return dead_letter(item, item.arrival_ns, fault.reason, fault.detail)
        return item


class MappedInlet(RawInlet):
    """Input topics that others made: each event gets headers of the contract by its mapping
    (topology.wire.field_reader), which all that follows reads and writes on. Records of the type
    `spilled` have been, and were checked, before; it is handed in, as no compiler of ours knows
    msgspec. `short`: the codec's short way, where the mapping has one."""

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
            self._ts_name = ""  # the broker may have written it: no evidence about a broker

    def one(self, record: Record, arrival_ns: int) -> Event | Malformed:
        if isinstance(record, self._spilled):
            return super().one(record, arrival_ns)
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
        return self._bounded(item)


def largest_size(record: Record) -> int:
    """What the record takes at most, in bytes, wherever it is written again."""
    key, value = record.key, record.value
    size = (len(key) if key else 0) + (len(value) if value else 0)
    for name, content in record.headers:
        size += HEADER_FRAMING_BYTES + MAX_CHARACTER_BYTES * len(name)
        if content:
            size += len(content)
    return size


class SequencedInlet(Inlet):
    """Reads a derived topic: stamped records, whose headers have their time and upstream partition.

    `upstream_partitions`: how many there are. A greater number in the header `lane` means that an
    upstream topic has grown since the start.
    """

    def __init__(self, reader: HeaderReader, upstream_partitions: int) -> None:
        self._reader = reader
        self._upstream_partitions = upstream_partitions
        form = Form(
            SEQUENCED, reader.names, reader.unit_ns, upstream_partitions=upstream_partitions
        )
        self._events = EventReader(form, self.one)

    def _read(self, records: Sequence[Record], clock: ArrivalClock, read: Read) -> None:
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
    """The ordered topic: each stream in one partition, with the clock it was ordered by."""

    def __init__(self, reader: HeaderReader) -> None:
        self._reader = reader
        self._events = EventReader(Form(ORDERED, reader.names, reader.unit_ns), self.one)

    def _read(self, records: Sequence[Record], clock: ArrivalClock, read: Read) -> None:
        self._events.read(records, clock, NO_CLOCK, read.events, read.add_without_place)

    def one(self, record: Record, _: int = NO_CLOCK) -> Event | Malformed:
        return self._reader.read_ordered(
            record.headers, record.timestamp * NS_PER_MS, record.offset, record, record.value
        )


class UnknownPartition(Exception):
    """The upstream topic has grown."""
