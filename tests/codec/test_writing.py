"""Laws and examples: the compiled codec writes the bytes that the plain codec puts into aiokafka's
batches.
"""

from __future__ import annotations

import gzip
import random
import struct
from types import SimpleNamespace
from typing import Any, cast

import pytest

pytest.importorskip("codec.native.batches", reason="the compiled codec is not built")

from codec import plain
from codec.face import ORDERED, RAW, SEQUENCED, Form, Topic
from codec.native import batches
from tests.codec.logs import FIRST, SEEDS, batch, record, sealed
from tests.codec.ways import TARGETS, Setting, Way, changed, seeded_setting, seeded_topic_log
from topology.base.event import Event

WAYS: tuple[tuple[Topic, Topic], ...] = ((RAW, SEQUENCED), (RAW, ORDERED), (SEQUENCED, ORDERED))


@pytest.fixture(autouse=True)
def a_clock_that_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stop gzip's clock, since gzip writes the time into its output."""
    monkeypatch.setattr(gzip, "time", SimpleNamespace(time=lambda: 0.0))


@pytest.mark.parametrize("seed", range(FIRST, FIRST + SEEDS))
@pytest.mark.parametrize(("reads", "writes"), WAYS)
def test_law_codecs_write_the_same_bytes(reads: Topic, writes: Topic, seed: int) -> None:
    dice = random.Random(f"{reads} {writes} {seed}")
    for _ in range(12):
        setting = seeded_setting(dice)
        log = seeded_topic_log(dice, reads, setting)
        lot = dice.random()
        seen = []
        for is_native in (True, False):
            way = Way(setting, is_native=is_native)
            events = [each for each in way.read(reads, log).events if each.stream in TARGETS]
            changes = random.Random(lot)
            for event in events:
                changed(changes, event)
            way.write(writes, events)
            seen.append(way.seen)
        assert seen[0] == seen[1], log


@pytest.mark.parametrize("seed", range(FIRST, FIRST + SEEDS))
def test_law_stages_forward_the_same_bytes(seed: int) -> None:
    dice = random.Random(seed)
    setting = seeded_setting(dice)
    log = seeded_topic_log(dice, RAW, setting)
    seen = []
    for is_native in (True, False):
        way = Way(setting, is_native=is_native)
        read = way.read(RAW, log)
        for number, between in enumerate(written(way, SEQUENCED, read.events)):
            events = way.read(SEQUENCED, at_offset(between, 10 * number)).events
            for last in written(way, ORDERED, events):
                way.read(ORDERED, last)
        seen.append(way.seen)
    assert seen[0] == seen[1], log


def written(way: Way, topic: Topic, events: list[Event]) -> list[bytes]:
    return way.write(topic, [each for each in events if each.stream in TARGETS])


def at_offset(log: bytes, offset: int) -> bytes:
    found = bytearray(log)
    struct.pack_into(">q", found, 0, offset)
    return sealed(bytes(found))


@pytest.mark.parametrize("name", [None, "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("is_transactional", [True, False])
def test_batches_match_aiokafka(name: str | None, is_transactional: bool) -> None:
    dice = random.Random(1)
    for limit in (61, 200, 5_000):
        both = [
            make(limit, name, is_transactional=is_transactional)
            for make in (batches.new_batch, plain.new_batch)
        ]
        for _ in range(dice.choice((0, 1, 40))):
            headers = [
                ("n" * dice.choice((1, 70)), dice.choice((None, b"", b"v" * 90)))
            ] * dice.choice((0, 1, 70))
            fields: dict[str, Any] = {
                "timestamp": dice.choice((0, 1_700_000_000_000, 5)),
                "key": dice.choice((None, b"", b"k")),
                "value": dice.choice((None, b"", bytes(300))),
                "headers": headers,
            }
            answers = [bool(each.append(**fields)) for each in both]
            assert answers[0] == answers[1]
            assert both[0].size() == both[1].size()
            assert both[0].closed() == both[1].closed()
        for each in both:
            each._set_producer_state(77, 2, 1 << 20)
        assert both[0].record_count() == both[1].record_count()
        assert bytes(both[0]._build()) == bytes(both[1]._build())
        assert both[0].size() == both[1].size()
        assert both[0].append(timestamp=0, key=None, value=None, headers=[]) is None


def test_only_bytes_are_accepted() -> None:
    each = batches.new_batch(100, None, is_transactional=False)
    with pytest.raises(TypeError):
        each.append(timestamp=0, key=None, value=None, headers=[("n", cast(Any, "text"))])
    with pytest.raises(TypeError):
        each.append(timestamp=0, key=cast(Any, "text"), value=None)
    with pytest.raises(TypeError):
        each.append(timestamp=0, key=None, value=cast(Any, 5))
    assert each.record_count() == 0


def test_plain_event_skips_general_path() -> None:
    """Without a fast path the law would compare the general path with itself."""
    headers = [(b"sourceId", b"a"), (b"seqNum", b"1"), (b"trace", None)]
    way = Way(Setting(by_time=("timed",)), is_native=True)
    timed = [(b"sourceId", b"a"), (b"streamId", b"timed")]
    log = batch([record(b"k", b"v", headers), record(b"k", b"v", timed, offset_delta=1)])
    events = way.read(RAW, log).events
    events[0].seq = 5
    events[0].late = "gap"
    events[1].epoch = 3
    for form in (Form(ORDERED, way.names), Form(SEQUENCED, way.names)):
        outbox = way.outbox()
        batches.EventWriter(form, TARGETS, lambda *_: pytest.fail("it went there")).put_all(
            events, outbox
        )
        assert outbox.records == 2
        assert outbox.bytes == 2


def test_renamed_header_uses_general_path() -> None:
    headers = [(b"sourceId", b"a"), (b"seqNum", b"1")]
    way = Way(Setting(), is_native=True)
    events = way.read(RAW, batch([record(None, b"v", headers)])).events
    gone = []
    names = way.names._replace(seq="number")
    batches.EventWriter(Form(ORDERED, names), TARGETS, lambda *each: gone.append(each)).put_all(
        events, way.outbox()
    )
    assert len(gone) == 1
