"""Run both codecs side by side: each reads a log, changes the events as operators would, and writes
them.

Seeded records, mostly sound, serve the laws on reading and writing events.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, Final

from agents.stage.arrival import ArrivalClock
from agents.stage.inlet import InletBatch, OrderedInlet, RawInlet, SequencedInlet, UnknownPartition
from agents.stage.outbox import Outbox
from agents.stage.outlet import OrderedOutlet, SequencedOutlet
from codec import plain
from codec.face import ORDERED, RAW, SEQUENCED, Form, Topic
from codec.native import batches as native_batches
from codec.native import events as native_events
from codec.native import records as native_records
from inorder.contract import HeaderContract, HeaderNames
from tests.codec.logs import APPEND_TIME, NAMES, NOW_MS, VALUES, batch, record, seeded_headers, told
from tests.codec.logs import read as read_log
from tests.kit.events import fields as event_fields
from topology.base.event import Event
from topology.order.reorder.recent import digest_of
from topology.records.checker import Reading
from topology.records.header_reader import HeaderReader
from topology.records.header_writer import HeaderWriter

STREAMS: Final = (None, b"default", b"s", b"\xce\xbc", b"timed")
RFC_3339: Final = (
    "1677-09-21T00:12:43.145224192Z", "1677-09-21T00:12:43.145224193Z",
    "2024-02-29T23:59:59Z", "2023-02-29T00:00:00Z", "2000-02-29t00:00:00.000000001z",
    "1900-02-29T00:00:00Z", "2100-02-28 23:59:59.9+23:59", "1970-01-01T00:00:00-00:01",
    "2024-05-01T12:00:00.1234567890Z", "2024-05-01T12:00:00.Z", "2024-05-01T12:00:60Z",
    "2024-05-01T24:00:00Z", "2024-13-01T00:00:00Z", "2024-00-01T00:00:00Z", "2024-04-31T00:00:00Z",
    "2024-05-01T12:00:00", "2024-05-01T12:00:00+1:00", "2024-05-01T12:00:00+24:00",
    "2024-05-01T12:00:00ZZ", "1677-09-21T00:12:43Z", "1680-01-01T00:00:00Z", "2262-04-11T23:47:16Z",
    "2260-12-31T23:59:59.999999999-23:59", "0001-01-01T00:00:00Z", "2024-3-01T00:00:00Z",
)  # fmt: skip
EDGES: Final = (
    b"-9223372036854775808", b"-9223372036854775807", b"9223372036854775807", b"9223372036854775808"
)  # fmt: skip
TIMES: Final = (
    *(b"5000000", b"1700000000") * 9, *EDGES, *(time.encode() for time in RFC_3339)
)  # fmt: skip

MAX_RECORD_BYTES: Final = 900
LANES: Final = 3
TARGETS: Final = {
    "default": ("out", 0), "s": ("out", 1), "\u03bc": ("out", 1), "timed": ("out", 2)
}  # fmt: skip
LIMIT: Final = 3_000
READ_AT_NS: Final = 1_800_000_000_000_000_000


@dataclass(frozen=True)
class Setting:
    """Settings of a stage and its topics."""

    contract: HeaderContract = HeaderContract()  # noqa: RUF009 - it is frozen
    by_time: tuple[str, ...] = ()
    compression: str | None = None
    embedded: bool = False


class Way:
    """One of the codecs; `seen` collects the results to compare."""

    def __init__(self, setting: Setting, *, is_native: bool) -> None:
        self._setting = setting
        self._reader = native_events.EventReader if is_native else plain.EventReader
        self._writer = native_batches.EventWriter if is_native else plain.EventWriter
        self._new_batch = native_batches.new_batch if is_native else plain.new_batch
        self._records = native_records.memory_records if is_native else plain.memory_records
        self.clock = ArrivalClock(0, embedded=setting.embedded)
        self.clock.tick(1_700_000_000_003_000_000)
        self.seen: list[object] = []

    def read(self, topic: Topic, log: bytes) -> InletBatch:
        records, fault, _ = read_log(self._records, log)
        self.seen.append(fault)
        read = InletBatch()
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
            for number, each in enumerate(filled):
                each._set_producer_state(9, 3, number)
                self.seen.append([target, each.record_count(), each.size()])
                written.append(bytes(each._build()))
        self.seen.append(written)
        return written


def event_told(event: Event) -> list[object]:
    found: list[object] = list(event_fields(event, "record", "digest").values())
    return [*found, digest_of(event), None if event.record is None else told([event.record])]


def dead_told(dead: Any) -> list[object]:
    found = [getattr(dead, each.name) for each in fields(dead) if each.name != "record"]
    return [*found, told([dead.record])]


def changed(dice: random.Random, event: Event) -> None:
    """Change an event as operators do."""
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


# -- seeded ------------------------------------------------------------------------------------


def seeded_setting(dice: random.Random) -> Setting:
    contract = dice.choice((
        HeaderContract(), HeaderContract("cloudevents"), HeaderContract(ts_unit="ms"),
        HeaderContract(ts_unit="s"), HeaderContract(source="host", epoch="boot"),
    ))  # fmt: skip
    return Setting(
        contract,
        dice.choice(((), (), ("timed",), ("default", "timed"))),
        dice.choice((None, "gzip", "snappy", "lz4", "zstd")),
        dice.random() < 0.2,
    )


def seeded_topic_log(dice: random.Random, topic: str, setting: Setting) -> bytes:
    """Return one or two batches of records that a topic might hold."""
    log = b""
    for number in range(dice.choice((1, 2))):
        count = dice.choice((1, 5, 30))
        records = [
            record(
                dice.choice((None, b"k", b"key")),
                dice.choice(
                    (None, b"", b"{}", dice.randbytes(40), bytes(880 if topic == RAW else 50))
                ),
                headers_of(dice, topic, setting),
                delta_ms=dice.choice((0, 0, 3)),
                offset_delta=at,
                in_headers=dice.choice((0,) * 9 + (1, 3)),
            )
            for at in range(count)
        ]
        log += batch(
            records,
            base_offset=100 * number,
            attributes=dice.choice((APPEND_TIME, APPEND_TIME, 0)) | dice.choice((0, 2, 3, 4)),
            first_ms=dice.choice((NOW_MS, NOW_MS, 0, -1)),
            latest_ms=NOW_MS + number,
        )
    return log


def headers_of(
    dice: random.Random, topic: str, setting: Setting
) -> list[tuple[bytes, bytes | None]]:
    names = setting.contract.names()
    headers: list[tuple[bytes, bytes | None]] = [
        (names.source.encode(), dice.choice((b"a", b"b%d" % dice.randrange(9), b"\xce\xbc"))),
        (names.seq.encode(), b"%d" % dice.choice((0, 7, 42, 1 << 40))),
    ]
    optional = (
        (names.epoch, dice.choice((b"0", b"1", b"5", b"01"))),
        (names.ts, dice.choice(TIMES)),
        (names.stream, dice.choice(STREAMS) or b"default"),
        (names.type, dice.choice((b"reading", b"", None))),
        ("trace", dice.choice((b"x", None))),
    )
    headers += [(name.encode(), value) for name, value in optional if dice.random() < 0.4]
    if dice.random() < 0.3:
        dice.shuffle(headers)
    if topic in {SEQUENCED, ORDERED}:
        headers += stamps(dice, topic)
    if dice.random() < 0.2:
        _spoil(dice, headers, names.kind.encode())
    return headers


def stamps(dice: random.Random, topic: str) -> list[tuple[bytes, bytes | None]]:
    def moment() -> bytes:
        return b"%d" % dice.choice((0, 5_000_000, -3, 1_700_000_000_000_000_000))

    found: list[tuple[bytes, bytes | None]] = [
        (b"refTs", moment()),
        (b"err", dice.choice((b"0", b"9"))),
        (b"segment", dice.choice((b"0", b"2"))),
    ]
    found += [(b"arrival", moment())] if topic == SEQUENCED else []
    found += [(b"at", moment())]
    found += [(b"lane", dice.choice((b"0", b"2")))] if topic == SEQUENCED else []
    return found + ([(b"late", b"gap")] if dice.random() < 0.1 else [])


def _spoil(dice: random.Random, headers: list[tuple[bytes, bytes | None]], kind: bytes) -> None:
    at = dice.randrange(len(headers))
    how = dice.randrange(6)
    if how == 0:
        del headers[at]
    elif how == 1:
        headers.insert(at, dice.choice(headers))
    elif how == 2:
        headers[at] = (headers[at][0], dice.choice(VALUES))
    elif how == 3:
        words = (b"heartbeat", b"bye", b"watermark", b"progress", b"blocked", b"no", None)
        headers.append((kind, dice.choice(words)))
    elif how == 4:
        headers.insert(at, (dice.choice(NAMES), dice.choice(VALUES)))
    else:
        headers += seeded_headers(dice)
