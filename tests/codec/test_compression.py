"""Examples: each of Kafka's compressions in both directions, and a limit on the output's size."""

from __future__ import annotations

import gzip
import os
import struct
import tracemalloc

import cramjam
import pytest
from aiokafka.codec import snappy_encode

from codec import compression
from codec.compression import (
    BY_NAME,
    GZIP,
    LZ4,
    MAX_UNPACKED_BYTES,
    SNAPPY,
    ZSTD,
    NotUnpacked,
    compress,
    decompress,
)

RECORDS = b"a record of a machine, " * 20_000
NOISE = os.urandom(1_000)
MOST = 100_000
SKIPPABLE = bytes.fromhex("502a4d18") + struct.pack("<I", 3) + b"any"


@pytest.mark.parametrize("name", BY_NAME)
@pytest.mark.parametrize("records", [b"x", RECORDS, bytes(MAX_UNPACKED_BYTES)])
def test_records_survive_compression(name: str, records: bytes) -> None:
    assert decompress(BY_NAME[name], compress(BY_NAME[name], records)) == records


def test_foreign_compression_is_read() -> None:
    raw = bytes(cramjam.snappy.compress_raw(RECORDS))
    assert decompress(SNAPPY, raw) == RECORDS
    assert decompress(SNAPPY, snappy_encode(RECORDS)) == RECORDS
    assert decompress(GZIP, gzip.compress(RECORDS[:9]) + gzip.compress(RECORDS[9:])) == RECORDS


@pytest.mark.parametrize("number", [LZ4, ZSTD])
def test_skippable_frames_are_skipped(number: int) -> None:
    frames = compress(number, RECORDS[:9]) + SKIPPABLE + compress(number, RECORDS[9:])
    assert decompress(number, SKIPPABLE + frames) == RECORDS


def test_incompressible_lz4_is_read() -> None:
    noise = os.urandom(4_300_000)
    assert decompress(LZ4, compress(LZ4, noise)) == noise


def test_unknown_compression_is_refused() -> None:
    with pytest.raises(NotUnpacked, match="which Kafka does not define"):
        decompress(5, b"")


@pytest.mark.parametrize("prefix", [b"", SKIPPABLE])
@pytest.mark.parametrize("number", BY_NAME.values())
def test_oversized_content_is_refused(number: int, prefix: bytes) -> None:
    with pytest.raises(NotUnpacked):
        decompress(number, prefix + compress(number, RECORDS), MOST)


@pytest.mark.parametrize("number", [GZIP, LZ4, ZSTD])
def test_bomb_takes_bounded_memory(number: int) -> None:
    bomb = compress(number, bytes(64 << 20))
    tracemalloc.start()
    try:
        with pytest.raises(NotUnpacked):
            decompress(number, bomb, 1 << 20)
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "payload",
    [
        b"\xff\xff\xff\xff\x0f" + b"\x00" * 5,
        compression.XERIAL + struct.pack("!iii", 1, 1, 5) + b"\xff\xff\xff\xff\x0f",
    ],
)
def test_gigabytes_of_snappy_are_refused(payload: bytes) -> None:
    with pytest.raises(NotUnpacked, match="unpacked"):
        decompress(SNAPPY, payload)


@pytest.mark.parametrize("length", [-(1 << 31), -4, 0, 6])
def test_bad_snappy_length_is_refused(length: int) -> None:
    block = bytes(cramjam.snappy.compress_raw(b"abc"))
    with pytest.raises(NotUnpacked):
        decompress(SNAPPY, compression.XERIAL + struct.pack("!iii", 1, 1, length) + block)


def test_endless_zstd_is_refused() -> None:
    frame = b"\x28\xb5\x2f\xfd\x00\x58" + (b"\x02\x00\x10" + b"x") * 9_000
    with pytest.raises(NotUnpacked, match="takes more than"):
        decompress(ZSTD, frame + b"\x03\x00\x10x")


@pytest.mark.parametrize("number", [GZIP, SNAPPY, LZ4, ZSTD])
@pytest.mark.parametrize("size", [0, 1, 4, 17, 100])
def test_truncated_content_yields_nothing(number: int, size: int) -> None:
    try:
        assert decompress(number, compress(number, NOISE)[:size]) == b""
    except NotUnpacked:
        assert number != GZIP or size


@pytest.mark.parametrize("number", [GZIP, LZ4, ZSTD, SNAPPY])
def test_trailing_bytes_are_refused(number: int) -> None:
    with pytest.raises(NotUnpacked):
        decompress(number, compress(number, RECORDS) + b"tail")
