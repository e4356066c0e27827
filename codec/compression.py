"""Unpacks Kafka's compressions, with a limit on the unpacked size, and compresses as aiokafka does.

A few bytes can expand to gigabytes. So a batch that needs more than the limit (by default
`MAX_UNPACKED_BYTES`), or is not complete, raises `NotUnpacked`. Consecutive frames count together,
and skippable frames do not count. By default, brokers accept compressed batches of up to a
megabyte.

Cost: LZ4 and zstd do not always state the unpacked size. A batch that fits into `KEPT_BYTES` at a
ratio of `USUAL_RATIO` is decoded into a buffer that each thread keeps. If it is too large after
all, or does not fit, it is decoded into a new buffer. That buffer is replaced by one that is
`RARE_RATIO` times larger, up to the limit, and the batch is decoded from the beginning again. The
pages of a buffer take no memory before they are written.
"""

from __future__ import annotations

import gzip
import io
import mmap
import struct
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import cramjam
from aiokafka import codec as aiokafka_codec

GZIP: Final = 1
SNAPPY: Final = 2
LZ4: Final = 3
ZSTD: Final = 4
BY_NAME: Final = {"gzip": GZIP, "snappy": SNAPPY, "lz4": LZ4, "zstd": ZSTD}

MAX_UNPACKED_BYTES: Final = 64 << 20
"""The default maximum size of an unpacked batch: four times the largest record that is allowed."""

MAX_OWN_BYTES: Final = 1 << 30
"""The maximum size of an unpacked batch in a changelog, which only its own stage writes."""

USUAL_RATIO: Final = 4
RARE_RATIO: Final = 8
KEPT_BYTES: Final = 4 << 20

XERIAL: Final = b"\x82SNAPPY\x00"
XERIAL_HEADER_BYTES: Final = 16


class NotUnpacked(Exception):
    """A batch cannot be unpacked; the message states why, without content of the batch."""


def decompress(compression: int, payload: bytes, most_bytes: int = MAX_UNPACKED_BYTES) -> bytes:
    """Unpack a batch; raise NotUnpacked if that fails or takes more than `most_bytes`."""
    decode = DECODERS.get(compression)
    if decode is None:
        raise NotUnpacked(f"the batch has compression {compression}, which Kafka does not define")
    try:
        return decode(payload, most_bytes)
    except (NotUnpacked, MemoryError):
        raise
    except Exception:  # noqa: BLE001 - each decoder has its own, whose words may hold content
        raise NotUnpacked("the batch cannot be unpacked") from None


def compress(compression: int, records: bytes) -> bytes:
    """Compress the records as aiokafka's batch builder does, at the same levels."""
    return ENCODERS[compression](records)


def _gzip(payload: bytes, most_bytes: int) -> bytes:
    with gzip.GzipFile(fileobj=io.BytesIO(payload)) as packed:
        records = packed.read(most_bytes + 1)
    _check_size(len(records), most_bytes)
    return records


def _snappy(payload: bytes, most_bytes: int) -> bytes:
    """Unpack one raw block of snappy, or several consecutive blocks after a Xerial header."""
    if len(payload) <= XERIAL_HEADER_BYTES or not payload.startswith(XERIAL):
        _check_size(cramjam.snappy.decompress_raw_len(payload), most_bytes)
        return bytes(cramjam.snappy.decompress_raw(payload))
    at, records = XERIAL_HEADER_BYTES, bytearray()
    while at < len(payload):
        (length,) = struct.unpack_from("!i", payload, at)
        at += 4
        if not 0 < length <= len(payload) - at:
            raise NotUnpacked("a block of snappy has no valid length, or ends after its batch")
        block = payload[at : at + length]
        _check_size(len(records) + cramjam.snappy.decompress_raw_len(block), most_bytes)
        records += cramjam.snappy.decompress_raw(block)
        at += length
    return bytes(records)


class _Kept(threading.local):
    """A buffer for each thread, into which most batches fit."""

    def __init__(self) -> None:
        self.room = mmap.mmap(-1, KEPT_BYTES)


_kept = _Kept()


def _unpack_into_buffer(
    decode_into: Callable[[bytes, Any], int], payload: bytes, most_bytes: int
) -> bytes:
    size = USUAL_RATIO * len(payload)
    if size <= KEPT_BYTES <= most_bytes:
        try:
            return _kept.room[: decode_into(payload, _kept.room)]
        except cramjam.DecompressionError:
            size = KEPT_BYTES
    while True:
        size = min(most_bytes, RARE_RATIO * size or KEPT_BYTES)
        try:
            with mmap.mmap(-1, size) as room:
                return room[: decode_into(payload, room)]
        except cramjam.DecompressionError:
            if size == most_bytes:
                break
    raise NotUnpacked(f"the batch cannot be unpacked, or takes more than {most_bytes} bytes")


def _check_size(size: int, most_bytes: int) -> None:
    if size > most_bytes:
        raise NotUnpacked(f"the batch takes more than {most_bytes} bytes unpacked")


DECODERS: Final[dict[int, Callable[[bytes, int], bytes]]] = {
    GZIP: _gzip,
    SNAPPY: _snappy,
    LZ4: partial(_unpack_into_buffer, cramjam.lz4.decompress_into),
    ZSTD: partial(_unpack_into_buffer, cramjam.zstd.decompress_into),
}
ENCODERS: Final[dict[int, Callable[[bytes], bytes]]] = {
    GZIP: aiokafka_codec.gzip_encode,
    SNAPPY: aiokafka_codec.snappy_encode,
    LZ4: aiokafka_codec.lz4_encode,
    ZSTD: aiokafka_codec.zstd_encode,
}
