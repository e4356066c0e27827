"""Build seeded logs for the codec's laws, and read them with either codec.

Record batches are written by hand, so that anything in them can be wrong.
"""

from __future__ import annotations

import os
import random
import struct
from collections.abc import Callable, Sequence
from typing import Any, Final

from aiokafka.consumer.fetcher import PartitionRecords
from aiokafka.record.util import calc_crc32c
from aiokafka.structs import TopicPartition

from codec.compression import compress
from codec.face import Unreadable

FIRST: Final = int(os.environ.get("INORDER_CODEC_FIRST_SEED", "0"))
SEEDS: Final = int(os.environ.get("INORDER_CODEC_SEEDS", "4"))
"""Number of seeds of the laws: few in `make test-all`, INORDER_CODEC_SEEDS in
infra/codec_fuzz.sh."""

PLACE: Final = TopicPartition("events.raw", 0)
FIELDS: Final = ("offset", "timestamp", "timestamp_type", "key", "value", "headers", "checksum")
APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
READ_COMMITTED: Final = 1
NOW_MS: Final = 1_700_000_000_000
RECORDS_AT: Final = 61

Headers = Sequence[tuple[bytes, bytes | None]]


def varint(number: int, padding: int = 0) -> bytes:
    """Return the zigzag encoding, with `padding` bytes more than it needs."""
    bits = (number << 1) ^ (number >> 63)
    found = bytearray()
    while bits >= 0x80:
        found.append(bits & 0x7F | 0x80)
        bits >>= 7
    found.append(bits)
    if padding:
        found[-1] |= 0x80
        found += b"\x80" * (padding - 1) + b"\x00"
    return bytes(found)


def part(content: bytes | None, padding: int = 0) -> bytes:
    if content is None:
        return varint(-1, padding)
    return varint(len(content), padding) + content


def record(
    key: bytes | None,
    value: bytes | None,
    headers: Headers,
    *,
    delta_ms: int = 0,
    offset_delta: int = 0,
    padding: int = 0,
    in_headers: int = 0,
) -> bytes:
    """Return a record.

    `padding` is the number of surplus bytes in each of its numbers, `in_headers` in each length in
    its headers.
    """
    body = b"\x00" + varint(delta_ms, padding) + varint(offset_delta, padding)
    body += part(key) + part(value) + varint(len(headers))
    body += b"".join(
        part(name, in_headers) + part(content, in_headers) for name, content in headers
    )
    return varint(len(body), padding) + body


def framed(body: bytes) -> bytes:
    """Return a record with these bytes as its body."""
    return varint(len(body)) + body


def batch(
    records: Sequence[bytes],
    *,
    base_offset: int = 0,
    attributes: int = APPEND_TIME,
    first_ms: int = NOW_MS,
    latest_ms: int = NOW_MS,
    producer: tuple[int, int, int] = (-1, -1, -1),
    count: int | None = None,
    last_delta: int | None = None,
    payload: bytes | None = None,
) -> bytes:
    """Return a batch; `payload` takes the place of the records."""
    body = b"".join(records) if payload is None else payload
    if attributes & 7 in range(1, 5) and payload is None:
        body = compress(attributes & 7, body)
    number = len(records) if count is None else count
    last = max(number - 1, 0) if last_delta is None else last_delta
    tail = struct.pack(">hiqq", attributes, last, first_ms, latest_ms)
    tail += struct.pack(">qhii", *producer, number) + body
    return sealed(struct.pack(">qiibI", base_offset, len(tail) + 9, 0, 2, 0) + tail)


def sealed(found: bytes) -> bytes:
    """Return the batch with the right length and checksum."""
    log = bytearray(found)
    struct.pack_into(">i", log, 8, len(log) - 12)
    struct.pack_into(">I", log, 17, calc_crc32c(bytes(log[21:])))
    return bytes(log)


def control(kind: int, *, base_offset: int, producer_id: int) -> bytes:
    """Return a control batch: kind 0 aborts, 1 commits."""
    marker = record(struct.pack(">hh", 0, kind), b"\x00" * 6, [])
    return batch(
        [marker],
        base_offset=base_offset,
        attributes=CONTROL | TRANSACTIONAL,
        producer=(producer_id, 0, -1),
    )


def read(
    make: Callable[[bytes], Any],
    log: bytes,
    *,
    check_crcs: bool = True,
    aborted: Sequence[tuple[int, int]] = (),
    since: int = 0,
) -> tuple[list[Any], type[BaseException] | None, int]:
    """Return the records that the fetcher reads, the fault, and the position after them."""
    found: list[Any] = []
    records = None
    try:
        batches = make(log)
        if not batches.has_next():
            return [], None, -1
        records = partition_records(lambda _: batches, log, since, aborted, check_crcs=check_crcs)
        records._consumer_record = lambda _, each: each
        found.extend(records)
    except Exception as fault:  # noqa: BLE001 - which one it is is what is asked
        return found, type(fault), records.next_fetch_offset if records else -1
    return found, None, records.next_fetch_offset


def partition_records(
    make: Callable[[bytes], Any],
    log: bytes,
    since: int,
    aborted: Sequence[tuple[int, int]] = (),
    *,
    check_crcs: bool = True,
) -> Any:
    return PartitionRecords(
        PLACE, make(log), list(aborted), since, None, None, check_crcs, READ_COMMITTED
    )


def told(records: Sequence[Any]) -> list[list[object]]:
    return [
        [getattr(each, field) for field in FIELDS]
        + ([each.first, each.detail] if isinstance(each, Unreadable) else [])
        for each in records
    ]


# -- seeded ------------------------------------------------------------------------------------

NAMES: Final = (
    b"sourceId", b"seqNum", b"ts", b"epoch", b"streamId", b"type", b"kind", b"trace",
    b"refTs", b"err", b"segment", b"arrival", b"at", b"lane", b"late", b"reason",
    b"\xce\xbc", b"", b"x" * 70,
)  # fmt: skip
VALUES: Final = (
    b"0", b"7", b"007", b"-3", b"42", b"9223372036854775807", b"9223372036854775808",
    b"99999999999999999999", b"", b" 5", b"+5", b"1_000", b"\xff\xfe", b"a", b"default",
    b"1700000000000000000", b"2024-02-29T23:59:59.123456789Z", b"heartbeat", b"x" * 300, None,
)  # fmt: skip


def seeded_headers(dice: random.Random) -> list[tuple[bytes, bytes | None]]:
    return [
        (dice.choice(NAMES), dice.choice(VALUES))
        for _ in range(dice.choice((0, 1, 3, 5, 9, 70 if dice.random() < 0.05 else 4)))
    ]


def seeded_record(dice: random.Random, offset_delta: int) -> bytes:
    size = dice.choice((0, 1, 20, 63, 64, 300))
    return record(
        dice.choice((None, b"", b"key", b"k" * 64, dice.randbytes(5))),
        dice.choice((None, b"", dice.randbytes(size))),
        seeded_headers(dice),
        delta_ms=dice.choice((0, 1, 5, -4, 1 << 40)),
        offset_delta=dice.choice((offset_delta,) * 9 + (1 << 31,)),
        padding=dice.choice((0,) * 12 + (1, 3)),
    )


def seeded_batch(dice: random.Random, base_offset: int) -> bytes:
    if dice.random() < 0.1:
        return control(
            dice.choice((0, 1, 2)), base_offset=base_offset, producer_id=dice.choice((1, 2))
        )
    count = dice.choice((0, 1, 2, 7, 20))
    compression = (
        dice.choice((0, 0, 0, 1, 2, 3, 4)) if dice.random() < 0.97 else dice.choice((5, 6, 7))
    )
    attributes = compression | dice.choice((0, APPEND_TIME)) | dice.choice((0, TRANSACTIONAL))
    return batch(
        [seeded_record(dice, number) for number in range(count)],
        base_offset=base_offset,
        attributes=attributes,
        first_ms=dice.choice((NOW_MS, 0, -1, (1 << 63) - 1)),
        latest_ms=dice.choice((NOW_MS, -1)),
        producer=(dice.choice((-1, 1, 2)), 0, 0),
        count=dice.choice((None,) * 15 + (0, -1, count + 1, 1 << 30)),
    )


def seeded_log(dice: random.Random) -> bytes:
    """Return a log of batches, some of them damaged and sealed again."""
    log = b""
    offset = 0
    for _ in range(dice.choice((1, 1, 2, 4))):
        each = seeded_batch(dice, offset)
        if dice.random() < 0.5:
            each = damaged(dice, each)
        log += each
        offset += 30
    return log[: dice.randrange(len(log))] if dice.random() < 0.1 else log


def damaged(dice: random.Random, whole: bytes) -> bytes:
    found = bytearray(whole)
    for _ in range(dice.choice((1, 1, 3))):
        at = dice.randrange(57, len(found)) if len(found) > 61 else 57
        how = dice.randrange(5)
        if how == 0:
            found[at] = dice.randrange(256)
        elif how == 1:
            found[at] ^= 1 << dice.randrange(8)
        elif how == 2:
            del found[max(at, 61) : max(at, 61) + dice.choice((1, 2, 50))]
        elif how == 3:
            found[at:at] = dice.choice((b"\x00", b"\x01", b"\xff" * 11, b"\x80\x80\x00"))
        else:
            del found[max(at, 61) :]
    if dice.random() < 0.05:
        found[dice.randrange(8, 61)] = dice.randrange(256)
        return bytes(found)
    return sealed(bytes(found))


def hostile_batch(dice: random.Random, base_offset: int) -> tuple[bytes, int]:
    """Return a batch in which any field that the sender writes can be wrong, and the offset after
    it.
    """
    count = dice.choice((0, 1, 2, 5, 20))
    records = [
        seeded_record(
            dice,
            dice.choice(
                (number,) * 7 + (0, -5, -base_offset - 5, 1 << 30, (1 << 63) - 1, number + 1)
            ),
        )
        for number in range(count)
    ]
    last_delta = dice.choice((max(count - 1, 0),) * 6 + (count, count + 7, 0, -1, -(1 << 31)))
    payload = None
    if dice.random() < 0.1:
        payload = dice.randbytes(dice.choice((0, 1, 30)))
    log = batch(
        records,
        base_offset=base_offset,
        attributes=dice.choice((0, 0, 1, 2, 3, 4, 7)) | dice.choice((0, APPEND_TIME)),
        first_ms=dice.choice((NOW_MS, -1, (1 << 63) - 1, -(1 << 63))),
        latest_ms=dice.choice((NOW_MS, -1)),
        count=dice.choice((None,) * 9 + (-1, count + 1, 1 << 30)),
        last_delta=last_delta,
        payload=payload,
    )
    found = bytearray(log)
    for _ in range(dice.choice((0, 0, 1, 3))):
        if len(found) > RECORDS_AT:
            at = dice.randrange(RECORDS_AT, len(found))
            found[at] = dice.choice((found[at] ^ 1 << dice.randrange(8), 0x80, 0xFF, 0, 1))
    return sealed(bytes(found)), base_offset + max(last_delta, 0) + 1
