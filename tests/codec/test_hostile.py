"""Laws and examples: both codecs read any batch alike, word for word, whatever its sender wrote.

Offsets of its records rise, lie within the batch, and cover all of its content.
"""

from __future__ import annotations

import random
import struct
from typing import Any

import pytest

from agents.kafka.whole_batches import Fetched
from codec import face, plain
from codec.compression import GZIP, LZ4, SNAPPY, ZSTD, compress
from codec.face import Unreadable
from tests.codec.logs import (
    APPEND_TIME,
    FIRST,
    NOW_MS,
    SEEDS,
    batch,
    framed,
    hostile_batch,
    part,
    partition_records,
    read,
    record,
    sealed,
    told,
    varint,
)

native = pytest.importorskip("codec.native.records", reason="the compiled codec is not built")

BASE = 1_000
NOTHING = b"\x00\x00\x00\x01\x01"
"""Attributes and numbers of a first record with neither key nor value."""


@pytest.fixture(params=[native.memory_records, plain.memory_records], ids=["native", "plain"])
def make(request: pytest.FixtureRequest) -> Any:
    """Return the function that reads a log, of each codec in turn."""
    return request.param


@pytest.mark.parametrize("seed", range(FIRST, FIRST + SEEDS))
def test_law_position_stays_in_batch(seed: int) -> None:
    dice = random.Random(seed)
    for _ in range(150):
        base = dice.choice((0, 7, BASE, 1 << 40, (1 << 63) - (1 << 32)))
        log, end = hostile_batch(dice, base)
        since = dice.choice((base, base, base + 2))
        ways = [
            read(make, log, since=since) for make in (native.memory_records, plain.memory_records)
        ]
        assert [told(found) for found, *_ in ways] == [told(ways[0][0])] * 2, log
        assert [rest for _, *rest in ways] == [[None, end]] * 2, log
        place = since - 1
        for item in ways[0][0]:
            assert place < item.offset < end, log
            place = item.offset
            if isinstance(item, Unreadable):
                assert base <= item.first <= item.offset, log


@pytest.mark.parametrize("seed", range(FIRST, FIRST + SEEDS))
def test_law_polls_stay_in_the_batch(make: Any, seed: int) -> None:
    """A poll can end within a batch, at a record's position."""
    dice = random.Random(seed)
    for _ in range(60):
        log, end = hostile_batch(dice, BASE)
        fetched = Fetched(partition_records(make, log, BASE))
        place = BASE
        while not fetched.is_over:
            for item in fetched.take(dice.choice((1, 2, 50))):
                assert item.offset >= place, log
                place = item.offset + 1
            assert place <= fetched.next_fetch_offset <= end, log
        assert fetched.next_fetch_offset == end, log


def ends_of(make: Any, log: bytes) -> list[tuple[int, int, str]]:
    """Return the offsets of records, and the offsets and reasons of unreadable parts."""
    found, fault, _ = read(make, log, since=BASE)
    assert fault is None
    return [
        (each.first, each.offset, each.detail)
        if isinstance(each, Unreadable)
        else (each.offset, each.offset, "")
        for each in found
    ]


def nothing(delta: int) -> bytes:
    return record(None, None, [], offset_delta=delta)


@pytest.mark.parametrize(
    ("deltas", "sound"),
    [
        ((0, -5, 2), (True, False, True)),
        ((0, -BASE - 5, 2), (True, False, True)),
        ((0, 0, 2), (True, False, True)),
        ((0, 2, 1), (True, False, False)),
        ((1 << 30, (1 << 30) + 1, 2), (False, False, True)),
        ((0, 1, 3), (True, True, False)),
        ((0, 1, -(1 << 63)), (True, True, False)),
        ((0, 1, (1 << 63) - 1), (True, True, False)),
    ],
)
def test_false_offset_is_unreadable(
    make: Any, deltas: tuple[int, ...], sound: tuple[bool, ...]
) -> None:
    log = batch([nothing(delta) for delta in deltas], base_offset=BASE)
    assert ends_of(make, log) == [
        (BASE + at, BASE + at, "" if is_sound else face.OFFSET) for at, is_sound in enumerate(sound)
    ]


def test_compacted_batch_keeps_offsets(make: Any) -> None:
    log = batch([nothing(3), nothing(7)], base_offset=BASE, last_delta=9)
    found, fault, position = read(make, log)
    assert ([each.offset for each in found], fault) == ([BASE + 3, BASE + 7], None)
    assert position == BASE + 10


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        (NOTHING + varint(1) + part(b"\xff") + part(b"x"), face.NAME),
        (NOTHING + varint(1) + part(None) + part(b"x"), face.NAME),
        (NOTHING + varint(1) + varint(-2) + part(b"x"), face.NAME),
        (NOTHING + varint(1) + part(b"x") + varint(-2), face.HEADER),
        (NOTHING + varint(1) + part(b"x") + varint(5), face.HEADER),
        (NOTHING + varint(-1), face.HEADERS),
        (NOTHING + varint(1 << 24), face.HEADERS),
        (NOTHING + varint(face.MAX_HEADERS_READ + 1), face.HEADERS),
        (NOTHING + varint(0) + b"\x00", face.LENGTH),
        (NOTHING, face.HEADERS),
        (b"\x00\x00\x00" + varint(-2) + b"\x01\x00", face.PART),
        (b"\x00\x00\x00\x01" + varint(1 << 62), face.PART),
        (b"\x00" + b"\x80" * 10 + b"\x00", face.NUMBERS),
        (b"", face.NUMBERS),
        (b"\x00", face.NUMBERS),
    ],
)
@pytest.mark.parametrize("compression", [0, LZ4])
def test_only_malformed_record_is_unreadable(
    make: Any, body: bytes, detail: str, compression: int
) -> None:
    records = [framed(body), nothing(1)]
    log = batch(records, base_offset=BASE, attributes=APPEND_TIME | compression)
    assert ends_of(make, log) == [(BASE, BASE, detail), (BASE + 1, BASE + 1, "")]


@pytest.mark.parametrize("attributes", range(0, 256, 51))
def test_record_attributes_are_ignored(make: Any, attributes: int) -> None:
    log = batch([framed(bytes([attributes]) + NOTHING[1:] + b"\x00")], base_offset=BASE)
    assert ends_of(make, log) == [(BASE, BASE, "")]


def test_time_beyond_64_bits_is_unreadable(make: Any) -> None:
    late = record(None, None, [], delta_ms=5)
    log = batch([late], base_offset=BASE, attributes=0, first_ms=(1 << 63) - 2)
    assert ends_of(make, log) == [(BASE, BASE, face.TIMESTAMP)]


@pytest.mark.parametrize("length", [varint(-1), varint(99), varint(1 << 62), b"\xff" * 11])
def test_bad_length_loses_rest_of_batch(make: Any, length: bytes) -> None:
    log = batch([nothing(0), length + nothing(1)[1:], nothing(2)], base_offset=BASE)
    assert ends_of(make, log) == [(BASE, BASE, ""), (BASE + 1, BASE + 2, face.NO_RECORD)]


@pytest.mark.parametrize(("count", "last_delta"), [(3, 1), (-1, 0), (1, -1), (0, -1), (0, -9)])
def test_count_must_fit_the_offsets(make: Any, count: int, last_delta: int) -> None:
    log = batch([], base_offset=BASE, count=count, last_delta=last_delta)
    last = BASE + max(last_delta, 0)
    assert ends_of(make, log) == [(BASE, last, face.COUNT)]
    assert read(make, log)[2] == last + 1


@pytest.mark.parametrize("number", [GZIP, SNAPPY, LZ4, ZSTD, 5, 7])
def test_bad_compression_is_unreadable(make: Any, number: int) -> None:
    payload = (compress(number, nothing(0)) if number <= ZSTD else b"") + b"tail"
    log = batch([], base_offset=BASE, attributes=number, payload=payload, count=2)
    sound = batch([nothing(0)], base_offset=BASE + 2)
    (first, last, detail), *rest = ends_of(make, log + sound)
    assert (first, last) == (BASE, BASE + 1)
    assert "batch" in detail
    assert rest == [(BASE + 2, BASE + 2, "")]


def test_trailing_bytes_are_unreadable(make: Any) -> None:
    log = batch([nothing(0), nothing(1) + b"\x00"], base_offset=BASE)
    assert ends_of(make, log) == [(BASE, BASE, ""), (BASE + 1, BASE + 1, face.BEHIND)]
    log = batch([], base_offset=BASE, payload=b"\x00", count=0, last_delta=4)
    assert ends_of(make, log) == [(BASE, BASE + 4, face.BEHIND)]


def test_batch_is_decoded_in_stretches(make: Any) -> None:
    count = face.STRETCH + 5
    log = batch([nothing(at) for at in range(count)], base_offset=BASE, attributes=ZSTD)
    stretches = list(make(log).next_batch().stretches())
    assert [len(each) for each in stretches] == [face.STRETCH, 5]
    assert [each.offset for each in stretches[1]] == list(range(BASE + face.STRETCH, BASE + count))
    fetched = Fetched(partition_records(make, log, BASE))
    assert len(fetched.take(face.STRETCH)) == face.STRETCH
    assert fetched.next_fetch_offset == BASE + face.STRETCH
    assert len(fetched.take(face.STRETCH)) == 5
    assert fetched.next_fetch_offset == BASE + count


def test_reader_limits_the_batch_size(make: Any) -> None:
    log = batch([record(None, bytes(10_000), [])], attributes=ZSTD)
    ((item,),) = make(log).next_batch().stretches(5_000)
    assert isinstance(item, Unreadable)
    ((item,),) = make(log).next_batch().stretches(50_000)
    assert item.value == bytes(10_000)


@pytest.mark.parametrize("base", [-1, -(1 << 63), (1 << 63) - 1])
def test_bad_base_offset_is_refused(make: Any, base: int) -> None:
    found = bytearray(batch([nothing(0)]))
    struct.pack_into(">q", found, 0, base)
    _, fault, _ = read(make, sealed(bytes(found)))
    assert fault is not None
    assert fault.__name__ == "CorruptRecordException"


def test_dead_letter_names_its_offsets() -> None:
    whole = Unreadable(5, 9, NOW_MS, 1, face.COUNT).dead(7)
    assert (whole.offset, whole.at_ns, whole.reason) == (5, 7, "record_unreadable")
    assert whole.detail.startswith("offsets 5 to 9 cannot be read: the batch's number of records")
    single = Unreadable(5, 5, NOW_MS, 1, face.NAME).dead(7)
    assert single.detail.startswith("offset 5 cannot be read: the name")
