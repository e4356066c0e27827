"""The two codecs side by side: a log is read, the events are changed as operators would, and
written on, by both."""

from __future__ import annotations

import random
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, Final

from agents.stage.arrival import ArrivalClock
from agents.stage.inlet import OrderedInlet, RawInlet, Read, SequencedInlet, UnknownPartition
from agents.stage.outbox import Outbox
from agents.stage.outlet import OrderedOutlet, SequencedOutlet
from codec import plain
from codec.face import ORDERED, RAW, SEQUENCED, Form, Topic
from codec.native import batches as native_batches
from codec.native import events as native_events
from codec.native import records as native_records
from inorder.contract import HeaderContract, HeaderNames
from tests.codec.logs import read as read_log
from tests.codec.logs import told
from tests.kit.events import fields as event_fields
from topology.model.event import Event
from topology.wire.checker import Reading
from topology.wire.header_reader import HeaderReader
from topology.wire.header_writer import HeaderWriter

MAX_RECORD_BYTES: Final = 900
LANES: Final = 3
TARGETS: Final = {
    "default": ("out", 0), "s": ("out", 1), "\u03bc": ("out", 1), "timed": ("out", 2)
}  # fmt: skip
LIMIT: Final = 3_000
READ_AT_NS: Final = 1_800_000_000_000_000_000


@dataclass(frozen=True)
class Setting:
    """What a stage and its topics are like."""

    contract: HeaderContract = HeaderContract()  # noqa: RUF009 - it is frozen
    by_time: tuple[str, ...] = ()
    compression: str | None = None
    embedded: bool = False


class Way:
    """One of the codecs. `seen` is what there is to compare."""

    def __init__(self, setting: Setting, *, is_native: bool) -> None:
        self._setting = setting
        self._reader = native_events.EventReader if is_native else plain.EventReader
        self._writer = native_batches.EventWriter if is_native else plain.EventWriter
        self._new_batch = native_batches.new_batch if is_native else plain.new_batch
        self._records = native_records.memory_records if is_native else plain.memory_records
        self.clock = ArrivalClock(0, embedded=setting.embedded)
        self.clock.tick(1_700_000_000_003_000_000)
        self.seen: list[object] = []

    def read(self, topic: Topic, log: bytes) -> Read:
        records, fault, _ = read_log(self._records, log)
        self.seen.append(fault)
        read = Read()
        reader = self._header_reader(topic)
        inlets: dict[str, Any] = {
            RAW: partial(RawInlet, reader, MAX_RECORD_BYTES),
            SEQUENCED: partial(SequencedInlet, reader, LANES),
            ORDERED: partial(OrderedInlet, reader),
        }
        aside = read.add_without_place if topic == ORDERED else read.add
        events = self._reader(self.form(topic), inlets[topic]().one)
        try:
            events.read(records, self.clock, READ_AT_NS, read.events, aside)
        except UnknownPartition as fault:
            self.seen.append(str(fault))
        self.seen.append([event_told(event) for event in read.events])
        self.seen.append([dead_told(dead) for dead in read.dead])
        self.seen.append([*self.clock.snapshot(), self.clock.without_append_time])
        return read

    def form(self, topic: Topic) -> Form:
        reader = self._header_reader(topic)
        return Form(topic, reader.names, reader.unit_ns, reader.by_time, MAX_RECORD_BYTES, LANES)

    def _header_reader(self, topic: Topic) -> HeaderReader:
        by_time = self._setting.by_time if topic == RAW else ()
        return HeaderReader(self._setting.contract, Reading(frozenset(by_time)))

    @property
    def names(self) -> HeaderNames:
        return self._setting.contract.names()

    def outbox(self) -> Outbox:
        return Outbox(
            partial(self._new_batch, LIMIT, self._setting.compression, is_transactional=True)
        )

    def write(self, topic: Topic, events: list[Event]) -> list[bytes]:
        outbox = self.outbox()
        writer = HeaderWriter(self._setting.contract)
        outlet = (
            OrderedOutlet(writer, TARGETS)
            if topic == ORDERED
            else SequencedOutlet(writer, TARGETS, 2)
        )
        form = Form(topic, writer.names)
        self._writer(form, TARGETS, outlet.put, 2).put_all(events, outbox)
        self.seen.append([outbox.records, outbox.bytes])
        written = []
        for target, filled in outbox.take().items():
            for number, batch in enumerate(filled):
                batch._set_producer_state(9, 3, number)
                self.seen.append([target, batch.record_count(), batch.size()])
                written.append(bytes(batch._build()))
        self.seen.append(written)
        return written


def event_told(event: Event) -> list[object]:
    found: list[object] = list(event_fields(event, "record").values())
    return [*found, None if event.record is None else told([event.record])]


def dead_told(dead: Any) -> list[object]:
    found = [getattr(dead, each.name) for each in fields(dead) if each.name != "record"]
    return [*found, told([dead.record])]


def changed(dice: random.Random, event: Event) -> None:
    """As operators change events on their way."""
    event.ref_time_ns += dice.choice((0, 0, 5_000_000, -(1 << 62)))
    event.error_ns = dice.choice((0, 0, 7, 1 << 50))
    event.segment = dice.choice((0, 0, 3))
    event.at_ns += dice.choice((0, 0, 1_000))
    event.late = dice.choice(("",) * 8 + ("gap", "x" * 100))
    if dice.random() < 0.15:
        event.seq = dice.choice((0, 7, 43, 1 << 40))
    if dice.random() < 0.15:
        event.epoch = dice.choice((-1, 0, 1, 5))
    if dice.random() < 0.02:
        event.ref_time_ns = 1 << 70
