"""Kafka's compressions, undone as aiokafka undoes them, with a bound on what comes out.

A few bytes can say that they stand for gigabytes. What a batch holds at most is known before it
is unpacked: a block of snappy says how long it gets, blocks of LZ4 and zstd have a largest size,
and gzip is read up to the bound and no further. A batch above `MAX_UNCOMPRESSED_BYTES` is
corrupt. Brokers take batches of a megabyte, compressed, unless they are told otherwise.

Proved by: tests/codec/test_compression.py
"""

from __future__ import annotations

import gzip
import io
import struct
from collections.abc import Callable
from typing import Final

import cramjam
from aiokafka import codec as aiokafka_codec
from aiokafka.errors import CorruptRecordException, UnsupportedCodecError

NONE: Final = 0
GZIP: Final = 1
SNAPPY: Final = 2
LZ4: Final = 3
ZSTD: Final = 4
BY_NAME: Final = {"gzip": GZIP, "snappy": SNAPPY, "lz4": LZ4, "zstd": ZSTD}

MAX_UNCOMPRESSED_BYTES: Final = 1 << 30
"""In one record batch."""

XERIAL: Final = b"\x82SNAPPY\x00"
XERIAL_HEADER_BYTES: Final = 16

LZ4_LARGEST_RATIO: Final = 255
ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
ZSTD_BLOCK_BYTES: Final = 128 << 10
ZSTD_RLE: Final = 1


def uncompressed(compression: int, payload: bytes) -> bytes:
    """CorruptRecordException above the bound; else what aiokafka's own decoders raise."""
    decode = DECODERS.get(compression)
    if decode is None:
        raise UnsupportedCodecError(f"Unknown compression codec {compression:#04x}")
    return decode(payload)


def compressed(compression: int, records: bytes) -> bytes:
    """As aiokafka's batch builder does it, at its levels."""
    return ENCODERS[compression](records)


def _gzip(payload: bytes) -> bytes:
    with gzip.GzipFile(fileobj=io.BytesIO(payload)) as packed:
        records = packed.read(MAX_UNCOMPRESSED_BYTES + 1)
    _bound(len(records))
    return records


def _snappy(payload: bytes) -> bytes:
    _bound(_snappy_bytes(payload))
    records: bytes = aiokafka_codec.snappy_decode(payload)
    return records


def _snappy_bytes(payload: bytes) -> int:
    """What the blocks say that they hold."""
    if len(payload) <= XERIAL_HEADER_BYTES or not payload.startswith(XERIAL):
        return cramjam.snappy.decompress_raw_len(payload)
    at, size = XERIAL_HEADER_BYTES, 0
    while at + 4 <= len(payload):
        (length,) = struct.unpack_from("!i", payload, at)
        at += 4
        if length <= 0 or at + length > len(payload):
            break  # which the decoder tells
        size += cramjam.snappy.decompress_raw_len(payload[at : at + length])
        at += length
    return size


def _lz4(payload: bytes) -> bytes:
    _bound(LZ4_LARGEST_RATIO * len(payload))
    records: bytes = aiokafka_codec.lz4_decode(payload)
    return records


def _zstd(payload: bytes) -> bytes:
    _bound(_zstd_most_bytes(payload))
    records: bytes = aiokafka_codec.zstd_decode(payload)
    return records


def _zstd_most_bytes(payload: bytes) -> int:
    """By the number of blocks in the frames; what is no frame adds nothing and is told by the
    decoder."""
    at, size = 0, 0
    while payload[at : at + 4] == ZSTD_MAGIC and at + 5 < len(payload):
        descriptor = payload[at + 4]
        is_single = descriptor >> 5 & 1
        at += 5 + (not is_single) + (0, 1, 2, 4)[descriptor & 3]
        at += (is_single, 2, 4, 8)[descriptor >> 6]
        is_last = False
        while not is_last and at + 3 <= len(payload):
            header = int.from_bytes(payload[at : at + 3], "little")
            is_last = bool(header & 1)
            at += 3 + (1 if header >> 1 & 3 == ZSTD_RLE else header >> 3)
            size += ZSTD_BLOCK_BYTES
        at += 4 * (descriptor >> 2 & 1)
    return size


def _bound(size: int) -> None:
    if size > MAX_UNCOMPRESSED_BYTES:
        raise CorruptRecordException(
            f"a record batch may take {size} bytes uncompressed, above {MAX_UNCOMPRESSED_BYTES}"
        )


DECODERS: Final[dict[int, Callable[[bytes], bytes]]] = {
    GZIP: _gzip,
    SNAPPY: _snappy,
    LZ4: _lz4,
    ZSTD: _zstd,
}
ENCODERS: Final[dict[int, Callable[[bytes], bytes]]] = {
    GZIP: aiokafka_codec.gzip_encode,
    SNAPPY: aiokafka_codec.snappy_encode,
    LZ4: aiokafka_codec.lz4_encode,
    ZSTD: aiokafka_codec.zstd_encode,
}
