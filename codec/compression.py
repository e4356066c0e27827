"""Kafka's compressions, undone with a bound on what comes out.

A few bytes can claim to expand to gigabytes. So a batch is unpacked into a room that has a
bound, `MAX_UNPACKED_BYTES`; what needs more, or is not whole, is `NotUnpacked`. Several frames
behind one another count together, frames to be skipped count nothing. Brokers take batches of a
megabyte, compressed, unless they are configured otherwise.

Cost: LZ4 and zstd do not always state how much comes out. Each thread keeps a room of `KEPT_BYTES`
for batches that fit into it at a ratio of `USUAL_RATIO`; for others there is one of `RARE_RATIO`
times as much, and so on up to the bound, each time from the beginning. The pages of a room are not
there before they are written to.
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
"""A record batch takes no more: four times the largest record that is allowed."""

MAX_OWN_BYTES: Final = 1 << 30
"""A batch in a changelog takes no more, which only its own stage writes."""

USUAL_RATIO: Final = 4
RARE_RATIO: Final = 8
KEPT_BYTES: Final = 4 << 20

XERIAL: Final = b"\x82SNAPPY\x00"
XERIAL_HEADER_BYTES: Final = 16


class NotUnpacked(Exception):
    """The message states why, without any content."""


def uncompressed(compression: int, payload: bytes, most_bytes: int = MAX_UNPACKED_BYTES) -> bytes:
    """NotUnpacked where it cannot be undone, or takes more than `most_bytes`."""
    decode = DECODERS.get(compression)
    if decode is None:
        raise NotUnpacked(f"the batch is packed by {compression}, which is no compression of Kafka")
    try:
        return decode(payload, most_bytes)
    except (NotUnpacked, MemoryError):
        raise
    except Exception:  # noqa: BLE001 - each decoder has its own, whose words may hold content
        raise NotUnpacked("the batch cannot be unpacked") from None


def compressed(compression: int, records: bytes) -> bytes:
    """As aiokafka's batch builder does it, at its levels."""
    return ENCODERS[compression](records)


def _gzip(payload: bytes, most_bytes: int) -> bytes:
    with gzip.GzipFile(fileobj=io.BytesIO(payload)) as packed:
        records = packed.read(most_bytes + 1)
    _bound(len(records), most_bytes)
    return records


def _snappy(payload: bytes, most_bytes: int) -> bytes:
    """A block, or blocks behind one another; each begins with its length when unpacked."""
    if len(payload) <= XERIAL_HEADER_BYTES or not payload.startswith(XERIAL):
        _bound(cramjam.snappy.decompress_raw_len(payload), most_bytes)
        return bytes(cramjam.snappy.decompress_raw(payload))
    at, records = XERIAL_HEADER_BYTES, bytearray()
    while at < len(payload):
        (length,) = struct.unpack_from("!i", payload, at)
        at += 4
        if not 0 < length <= len(payload) - at:
            raise NotUnpacked("a block of snappy has no length, or one beyond its batch")
        block = payload[at : at + length]
        _bound(len(records) + cramjam.snappy.decompress_raw_len(block), most_bytes)
        records += cramjam.snappy.decompress_raw(block)
        at += length
    return bytes(records)


class _Kept(threading.local):
    """A room for each thread, which most batches fit into."""

    def __init__(self) -> None:
        self.room = mmap.mmap(-1, KEPT_BYTES)


_kept = _Kept()


def _into_room(decode_into: Callable[[bytes, Any], int], payload: bytes, most_bytes: int) -> bytes:
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


def _bound(size: int, most_bytes: int) -> None:
    if size > most_bytes:
        raise NotUnpacked(f"the batch takes more than {most_bytes} bytes unpacked")


DECODERS: Final[dict[int, Callable[[bytes, int], bytes]]] = {
    GZIP: _gzip,
    SNAPPY: _snappy,
    LZ4: partial(_into_room, cramjam.lz4.decompress_into),
    ZSTD: partial(_into_room, cramjam.zstd.decompress_into),
}
ENCODERS: Final[dict[int, Callable[[bytes], bytes]]] = {
    GZIP: aiokafka_codec.gzip_encode,
    SNAPPY: aiokafka_codec.snappy_encode,
    LZ4: aiokafka_codec.lz4_encode,
    ZSTD: aiokafka_codec.zstd_encode,
}
