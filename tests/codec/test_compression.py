"""Examples: each of Kafka's compressions there and back, and a bound on what comes out."""

from __future__ import annotations

import gzip
import struct

import cramjam
import pytest
from aiokafka.codec import snappy_encode
from aiokafka.errors import CorruptRecordException, UnsupportedCodecError

from codec import compression
from codec.compression import BY_NAME, GZIP, LZ4, SNAPPY, ZSTD, compressed, uncompressed

RECORDS = b"a record of a machine, " * 20_000


@pytest.mark.parametrize("name", BY_NAME)
@pytest.mark.parametrize("records", [b"x", RECORDS])
def test_there_and_back(name: str, records: bytes) -> None:
    assert uncompressed(BY_NAME[name], compressed(BY_NAME[name], records)) == records


def test_what_other_producers_write_is_read() -> None:
    raw = bytes(cramjam.snappy.compress_raw(RECORDS))
    assert uncompressed(SNAPPY, raw) == RECORDS
    assert uncompressed(SNAPPY, snappy_encode(RECORDS)) == RECORDS
    assert uncompressed(GZIP, gzip.compress(RECORDS[:9]) + gzip.compress(RECORDS[9:])) == RECORDS


def test_a_compression_that_is_none_is_refused() -> None:
    with pytest.raises(UnsupportedCodecError):
        uncompressed(5, b"")


@pytest.mark.parametrize("number", BY_NAME.values())
def test_what_gets_too_large_is_corrupt_before_it_is_there(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    payload = compressed(number, RECORDS)
    monkeypatch.setattr(compression, "MAX_UNCOMPRESSED_BYTES", 100_000)
    with pytest.raises(CorruptRecordException, match="uncompressed"):
        uncompressed(number, payload)


@pytest.mark.parametrize(
    "payload",
    [
        b"\xff\xff\xff\xff\x0f" + b"\x00" * 5,
        compression.XERIAL + struct.pack("!iii", 1, 1, 5) + b"\xff\xff\xff\xff\x0f",
    ],
)
def test_snappy_that_says_it_stands_for_gigabytes_is_corrupt(payload: bytes) -> None:
    with pytest.raises(CorruptRecordException, match="uncompressed"):
        uncompressed(SNAPPY, payload)


def test_zstd_that_repeats_one_byte_without_end_is_corrupt() -> None:
    frame = compression.ZSTD_MAGIC + b"\x00\x58" + (b"\x02\x00\x10" + b"x") * 9_000
    with pytest.raises(CorruptRecordException, match="uncompressed"):
        uncompressed(ZSTD, frame + b"\x03\x00\x10x")


@pytest.mark.parametrize("number", [GZIP, SNAPPY, LZ4, ZSTD])
@pytest.mark.parametrize("size", [0, 1, 4, 17, 100])
def test_what_was_cut_off_is_told_by_an_exception_or_read_as_less(number: int, size: int) -> None:
    payload = compressed(number, RECORDS)[:size]
    try:
        found = uncompressed(number, payload)
    except Exception:  # noqa: BLE001 - each decoder has its own
        return
    assert RECORDS.startswith(found)
