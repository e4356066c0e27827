"""From Kafka records to what a stage takes: events, and dead letters that say why.

A dead letter whose source and number could be read also yields the event that takes its
place in the sequence, so that it leaves no hole.

The codec at work (`codec`) reads whole batches; what it does not find plain it hands to the inlet,
whose `_one` is the general path.

A record above `topics.max_record` is dead, as what is written on must fit into topics of
known bounds. Key, value and headers count together, with the most that their framing takes.

Proved by: tests/agents/stage/test_inlet.py, tests/end_to_end/test_bad_input.py
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from agents.stage.arrival import NS_PER_MS, ArrivalClock
from codec import EventReader
from codec.face import ORDERED, RAW, SEQUENCED, Form
from topology.flow.stage import placeholder
from topology.model.event import Event
from topology.model.outcome import Malformed
from topology.wire.header_reader import HeaderReader
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
    """What a batch of records says: events in log order, and what is dead in it."""

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


class Inlet(Protocol):
    def read(self, records: Sequence[Record], clock: ArrivalClock) -> Read:
        """A stretch of the log, in order; moves the clock."""

    def read_again(self, records: Sequence[Record]) -> list[Event]:
        """Held records, in log order, as far as they still yield events. When they arrived is noted
        elsewhere: these say nothing of it."""


class RawInlet:
    """Input topics: the header contract of producers, append time, and with `check` who sent it.

    What is checked goes through both: the codec's short path, then the check, in log order."""

    def __init__(
        self, reader: HeaderReader, max_record_bytes: int, check: SignatureCheck | None = None
    ) -> None:
        self._reader = reader
        self._max_record_bytes = max_record_bytes
        self._check = check
        form = Form(RAW, reader.names, reader.unit_ns, reader.by_time, max_record_bytes)
        self._events = EventReader(form, self._one)

    def read(self, records: Sequence[Record], clock: ArrivalClock) -> Read:
        read = Read()
        if self._check is None:
            self._events.read(records, clock, time.time_ns(), read.events, read.add)
            return read
        passed = self._check.passed
        items: list[Any] = []
        self._events.read(records, clock, time.time_ns(), items, items.append)
        for item in items:
            record = item.record
            is_past = item.offset < 0  # made by the stage itself of a history
            read.add(item if is_past else passed(item, record.headers, record.value))
        return read

    def read_again(self, records: Sequence[Record]) -> list[Event]:
        return self.read(records, ArrivalClock(0)).events

    def _one(self, record: Record, arrival_ns: int) -> Event | Malformed:
        stamp_ns = record.timestamp * NS_PER_MS if record.timestamp >= 0 else arrival_ns
        item = self._reader.read(
            record.headers, stamp_ns, arrival_ns, record.offset, record, record.value
        )
        if isinstance(item, Event):
            size = largest_size(record)
            if size > self._max_record_bytes:
                return self._too_large(item, size)
        return item

    def _too_large(self, event: Event, size: int) -> Malformed:
        return Malformed(
            event.arrival_ns,
            event.offset,
            "record_huge",
            f"key, value and headers take {size} bytes, topics.max_record allows"
            f" {self._max_record_bytes}; raise it (and what `inorder topics create` then tells of)"
            " or send a reference to the payload",
            event.stream,
            event.source,
            event.epoch,
            event.seq,
            event.record,
        )


def largest_size(record: Record) -> int:
    """What the record takes at most, in bytes, wherever it is written again."""
    key, value = record.key, record.value
    size = (len(key) if key else 0) + (len(value) if value else 0)
    for name, content in record.headers:
        size += HEADER_FRAMING_BYTES + MAX_CHARACTER_BYTES * len(name)
        if content:
            size += len(content)
    return size


class SequencedInlet:
    """A derived topic: stamped records, whose own headers say when and from which lane.

    `lane_of` maps the lane in the header to the place of that lane; a lane that is not
    in it means that the upstream topic has grown since the start.
    """

    def __init__(self, reader: HeaderReader, lanes: int) -> None:
        self._reader = reader
        self._lanes = lanes
        form = Form(SEQUENCED, reader.names, reader.unit_ns, lanes=lanes)
        self._events = EventReader(form, self._one)

    def read(self, records: Sequence[Record], clock: ArrivalClock) -> Read:
        read = Read()
        self._events.read(records, clock, NO_CLOCK, read.events, read.add)
        return read

    def read_again(self, records: Sequence[Record]) -> list[Event]:
        return self.read(records, ArrivalClock(0)).events

    def _one(self, record: Record, _: int = NO_CLOCK) -> Event | Malformed:
        item = self._reader.read_sequenced(
            record.headers,
            record.timestamp * NS_PER_MS,
            record.offset,
            record,
            record.value,
        )
        if isinstance(item, Event) and item.lane >= self._lanes:
            raise UnknownLane(
                f"offset {record.offset} comes from lane {item.lane}, but the upstream topic had"
                f" {self._lanes} partitions when this worker started; restart it"
            )
        return item


class OrderedInlet:
    """The ordered topic: each stream in one partition, with the clock it was ordered by."""

    def __init__(self, reader: HeaderReader) -> None:
        self._reader = reader
        self._events = EventReader(Form(ORDERED, reader.names, reader.unit_ns), self._one)

    def read(self, records: Sequence[Record], clock: ArrivalClock) -> Read:
        read = Read()
        self._events.read(records, clock, NO_CLOCK, read.events, read.add_without_place)
        return read

    def read_again(self, records: Sequence[Record]) -> list[Event]:
        return self.read(records, ArrivalClock(0)).events

    def _one(self, record: Record, _: int = NO_CLOCK) -> Event | Malformed:
        return self._reader.read_ordered(
            record.headers, record.timestamp * NS_PER_MS, record.offset, record, record.value
        )


class UnknownLane(Exception):
    """The upstream topic has grown."""


def lanes_of(partitions: Mapping[str, int]) -> dict[str, int]:
    """Where each input topic's lanes begin, when several meet in one derived topic."""
    first = 0
    begins = {}
    for topic in sorted(partitions):
        begins[topic] = first
        first += partitions[topic]
    return begins
