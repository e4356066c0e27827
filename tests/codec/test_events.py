"""Laws: both codecs make the same events, faults and clock from records.

Records come from raw, sequenced and ordered topics, with everything that a header can hold.
"""

from __future__ import annotations

import random
from typing import Any, cast
from zlib import crc32

import pytest

from agents.stage.inlet import InletBatch

pytest.importorskip("codec.native.events", reason="the compiled codec is not built")

from agents.stage.arrival import ArrivalClock
from agents.stage.inlet import RawInlet
from codec import plain
from codec.face import MAX_HEADERS, ORDERED, RAW, SEQUENCED, Form, Topic
from codec.native import events, records
from inorder.contract import HeaderContract
from tests.codec.logs import APPEND_TIME, FIRST, SEEDS, Headers, batch, record
from tests.codec.ways import Setting, Way, seeded_setting, seeded_topic_log
from topology.order.reorder.recent import digest_of
from topology.records.header_reader import HeaderReader


@pytest.mark.parametrize("seed", range(FIRST, FIRST + SEEDS))
@pytest.mark.parametrize("topic", [RAW, SEQUENCED, ORDERED])
def test_law_codecs_make_the_same_events(topic: Topic, seed: int) -> None:
    dice = random.Random(f"{topic} {seed}")
    for _ in range(15):
        setting = seeded_setting(dice)
        logs = [seeded_topic_log(dice, topic, setting) for _ in range(2)]
        seen = []
        for is_native in (True, False):
            way = Way(setting, is_native=is_native)
            for log in logs:
                way.read(topic, log)
            seen.append(way.seen)
        assert seen[0] == seen[1], logs


def test_plain_record_skips_general_path() -> None:
    """Without a fast path the law would compare the general path with itself."""
    headers: list[Headers] = [
        [(b"ce_source", b"a"), (b"ce_sequence", b"007"), (b"ce_time", b"2024-05-01T12:00:00.5Z")],
        [(b"trace", None), (b"ce_sequence", b"8"), (b"ce_source", b"\xce\xbc"), (b"trace", b"x")],
    ]
    given = [record(b"k", b"v", each, offset_delta=at) for at, each in enumerate(headers)]
    log = batch(given, attributes=APPEND_TIME | 2)
    way = Way(Setting(HeaderContract("cloudevents", ts_unit="ms")), is_native=True)
    reader = events.EventReader(way.form(RAW), lambda *_: pytest.fail("it went there"))
    found: list[Any] = []
    reader.read(
        list(records.memory_records(log).next_batch() or ()), way.clock, 0, found, found.append
    )
    assert [event.seq for event in found] == [7, 8]


@pytest.mark.parametrize("type_", ["", "t", "reading", "\xe4" * 9, "x" * 300])
def test_digest_matches_zlib(type_: str) -> None:
    dice = random.Random(type_)
    values = [None, *(dice.randbytes(size) for size in range(601)), bytes(99), b"\xff" * 5_000]
    headers = [(b"sourceId", b"s"), (b"seqNum", b"1"), (b"type", type_.encode())]
    log = batch([record(None, each, headers, offset_delta=at) for at, each in enumerate(values)])
    names = HeaderReader(HeaderContract())
    form = Form(RAW, names.names, names.unit_ns, max_record_bytes=1 << 20)
    found: list[Any] = []
    reader = events.EventReader(form, lambda *_: pytest.fail("it went there"))
    for stretch in cast(Any, records.memory_records(log).next_batch()).stretches():
        reader.read(stretch, ArrivalClock(0), 0, found, found.append)
    digests = [crc32(value, crc32(type_.encode())) if value else 0 for value in values]
    assert [event.digest for event in found] == [digest_of(event) for event in found] == digests


def test_epochs_need_no_digest() -> None:
    plain = [(b"sourceId", b"s"), (b"seqNum", b"1")]
    given = [plain, [*plain, (b"epoch", b"0")], [*plain, (b"streamId", b"timed")]]
    log = batch([record(None, b"v", each, offset_delta=at) for at, each in enumerate(given)])
    found = Way(Setting(by_time=("timed",)), is_native=True).read(RAW, log).events
    assert [event.digest for event in found] == [crc32(b"v"), 0, 0]


@pytest.mark.parametrize(("length", "is_kept"), [(9, True), (257, False)])
def test_name_table_keeps_no_long_names(length: int, is_kept: bool) -> None:
    """A sender can write any number of names of any length."""
    headers = [(b"sourceId", b"machine"), (b"seqNum", b"1"), (b"type", b"t" * length)]
    log = batch([record(None, None, headers, offset_delta=at) for at in range(2)])
    one, other = Way(Setting(), is_native=True).read(RAW, log).events
    assert one.type == other.type == "t" * length
    assert (one.type is other.type) == is_kept
    assert one.source is other.source


@pytest.mark.parametrize("reader", [events.EventReader, plain.EventReader])
@pytest.mark.parametrize(
    ("count", "reasons"), [(MAX_HEADERS, []), (MAX_HEADERS + 1, ["record_huge"])]
)
def test_number_of_headers_is_bounded(reader: Any, count: int, reasons: list[str]) -> None:
    names = HeaderReader(HeaderContract())
    inlet = RawInlet(names, max_record_bytes=1 << 20)
    headers = [(b"sourceId", b"a"), (b"seqNum", b"7"), *[(b"", None)] * (count - 2)]
    first: Any = records.memory_records(batch([record(None, None, headers)])).next_batch()
    (stretch,) = first.stretches()
    read = InletBatch()
    form = Form(RAW, names.names, names.unit_ns, max_record_bytes=1 << 20)
    reader(form, inlet.one).read(stretch, ArrivalClock(0), 0, read.events, read.add)
    assert [each.reason for each in read.dead] == reasons
    assert [event.seq for event in read.events] == [7]
