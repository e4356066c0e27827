"""Laws and examples: both codecs read a fetched log alike, and a sound log as aiokafka reads it.

Laws compare records, faults and positions over seeded logs with every fault of a batch;
tests/codec/test_hostile.py covers the faults of senders.
"""

from __future__ import annotations

import random
from typing import Any

import pytest
from aiokafka.errors import CorruptRecordException
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords

from codec import plain
from codec.face import Unreadable
from tests.codec.logs import FIRST, NOW_MS, SEEDS, batch, read, record, seeded_log, told

records = pytest.importorskip("codec.native.records", reason="the compiled codec is not built")

A, B = record(b"k", b"a", [(b"x", b"1"), (b"y", None)]), record(None, None, [], offset_delta=1)


@pytest.mark.parametrize("seed", range(FIRST, FIRST + SEEDS))
def test_law_codecs_and_aiokafka_agree(seed: int) -> None:
    dice = random.Random(seed)
    sound = 0
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
        plains, *rest = read(plain.memory_records, log, **ways)
        assert told(mine) == told(plains), log
        assert [fault, position] == rest, log
        theirs, their_fault, their_position = read(MemoryRecords, log, **ways)
        if (
            fault is their_fault is None
            and not ways["since"]
            and not any(isinstance(each, Unreadable) for each in mine)
        ):
            assert (told(mine), position, fault) == (told(theirs), their_position, None), log
            sound += 1
    assert sound


@pytest.mark.parametrize("length", [-(1 << 31), -1, 0, 13, 14, 48])
def test_too_short_batch_is_corrupt(length: int) -> None:
    log = b"\x00" * 8 + length.to_bytes(4, "big", signed=True) + b"\x00" * 4 + b"\x02" + bytes(80)
    found, fault, _ = read(records.memory_records, log)
    assert (found, fault) == ([], CorruptRecordException)


@pytest.mark.parametrize("make", [records.memory_records, plain.memory_records])
def test_aiokafka_reads_older_formats(make: Any) -> None:
    older = LegacyRecordBatchBuilder(magic=1, compression_type=0, batch_size=1 << 10)
    older.append(0, timestamp=NOW_MS, key=b"k", value=b"old", headers=[])
    log = bytes(older.build()) + batch([A], base_offset=1)
    found, fault, _ = read(make, log)
    assert [(each.offset, each.value) for each in found] == [(0, b"old"), (1, b"a")]
    assert fault is None
    assert [len(each) for each in make(log).next_batch().stretches()] == [1]
