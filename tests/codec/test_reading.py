"""Laws and examples: the compiled codec reads a fetched log as aiokafka does.

The law holds both to the same records, the same fault and the same position, over seeded logs in
which whatever can be wrong with a batch is."""

from __future__ import annotations

import random
from typing import Any

import pytest
from aiokafka.errors import CorruptRecordException
from aiokafka.record.memory_records import MemoryRecords

from tests.codec.logs import (
    APPEND_TIME,
    NOW_MS,
    TRANSACTIONAL,
    batch,
    control,
    read,
    record,
    seeded_log,
    told,
    varint,
)
from tests.codec.seeds import FIRST, SEEDS

records = pytest.importorskip("codec.native.records", reason="the compiled codec is not built")

BEYOND = {SystemError, MemoryError, OverflowError}
"""What aiokafka ends in where a length of nearly 2^63 has taken it past its own check."""

TWO = 2
"""The format of record batches that the codec knows."""


def kind(fault: type[BaseException] | None) -> type[BaseException] | None:
    return CorruptRecordException if fault in BEYOND else fault


A, B = record(b"k", b"a", [(b"x", b"1"), (b"y", None)]), record(None, None, [], offset_delta=1)


@pytest.mark.parametrize("seed", range(FIRST, FIRST + SEEDS))
def test_law_a_log_is_read_as_aiokafka_reads_it(seed: int) -> None:
    dice = random.Random(seed)
    for _ in range(60):
        log = seeded_log(dice)
        ways: dict[str, Any] = {
            "check_crcs": dice.random() < 0.5,
            "aborted": [
                (producer, dice.choice((0, 30))) for producer in (1, 2) if dice.random() < 0.3
            ],
            "since": dice.choice((0, 0, 3)),
        }
        mine, fault, position = read(records.memory_records, log, **ways)
        theirs, their_fault, their_position = read(MemoryRecords, log, **ways)
        assert kind(fault) is kind(their_fault), log
        if fault is not None and log[16] != TWO:
            continue  # aiokafka's either way; beyond the end it is not sure itself
        if fault is None or told(mine) == told(theirs):
            assert told(mine) == told(theirs), log
            assert position == their_position, log
        else:  # a record that they read beyond the end of the batch, before they noticed
            assert told(mine) == told(theirs)[: len(mine)], log
            assert len(theirs) == len(mine) + 1, log


def test_records_of_several_batches_with_what_stands_between() -> None:
    log = b"".join([
        batch([A, B]),
        batch([A], base_offset=2, attributes=TRANSACTIONAL, producer=(7, 0, 0)),
        control(0, base_offset=3, producer_id=7),
        batch([A], base_offset=4, first_ms=NOW_MS + 5, attributes=0),
        batch([A], base_offset=9)[:-1],
    ])  # fmt: skip
    found, fault, position = read(records.memory_records, log, aborted=[(7, 2)])
    assert [each.offset for each in found] == [0, 1, 4]
    assert [each.timestamp - NOW_MS for each in found] == [0, 0, 5]
    assert [each.timestamp_type for each in found] == [1, 1, 0]
    assert found[0].headers == [("x", b"1"), ("y", None)]
    assert (found[1].key, found[1].value, found[1].headers) == (None, None, [])
    assert fault is None
    assert position == 5


@pytest.mark.parametrize(
    "body",
    [
        varint(0),
        varint(-1),
        varint(5),
        varint(1 << 62),
        b"\xff" * 11,
        b"\x80",
        varint(9) + b"\x00\x00\x00" + varint(-1) + varint(1 << 62),
        record(b"k", b"v", [])[:-1] + varint(1),
        record(b"k", b"v", [])[:-1] + varint(-1),
        record(b"k", b"v", []) + b"\x00",
    ],
)
@pytest.mark.parametrize("compression", [0, 2, 4])
def test_a_record_that_points_beyond_itself_is_corrupt(body: bytes, compression: int) -> None:
    log = batch([A, body], attributes=APPEND_TIME | compression)
    found, fault, _ = read(records.memory_records, log)
    assert [each.value for each in found[:1]] == [b"a"]
    assert fault is CorruptRecordException


@pytest.mark.parametrize("length", [-(1 << 31), -1, 0, 13, 14, 48])
def test_a_batch_shorter_than_its_header_is_corrupt(length: int) -> None:
    log = b"\x00" * 8 + length.to_bytes(4, "big", signed=True) + b"\x00" * 4 + b"\x02" + bytes(80)
    found, fault, _ = read(records.memory_records, log)
    assert (found, fault) == ([], CorruptRecordException)


def test_a_name_that_is_no_utf_8_is_told_as_aiokafka_tells_it() -> None:
    log = batch([A, record(None, None, [(b"\xff", b"")])])
    assert read(records.memory_records, log)[1] is UnicodeDecodeError


def test_a_checksum_that_is_wrong_is_corrupt() -> None:
    log = bytearray(batch([A, B]))
    log[-1] ^= 1
    assert read(records.memory_records, bytes(log))[1] is CorruptRecordException


def test_older_formats_are_aiokafkas() -> None:
    log = bytearray(batch([A]))
    log[16] = 1
    assert type(records.memory_records(bytes(log))) is MemoryRecords


def test_a_position_within_a_batch_leaves_out_what_lies_before() -> None:
    found, _, _ = read(records.memory_records, batch([A, B]), since=1)
    assert [each.offset for each in found] == [1]


def test_a_record_that_nobody_read_has_no_headers() -> None:
    assert records.Record().headers == []
