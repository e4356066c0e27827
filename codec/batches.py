"""Reads record batches of format 2 in Python; the native codec must give the same results.

A batch is decoded in stretches of at most `STRETCH` records. So a batch takes only the memory of
its unpacked bytes (`codec.compression`) and of one stretch. Batches of an older format are passed
to aiokafka.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

from aiokafka.errors import CorruptRecordException
from aiokafka.record.memory_records import MemoryRecords
from aiokafka.record.util import calc_crc32c

from codec.compression import MAX_UNPACKED_BYTES, NotUnpacked, decompress
from codec.face import (
    BEHIND,
    COUNT,
    HEADER,
    HEADERS,
    LENGTH,
    MAX_BATCH_RECORDS,
    MAX_HEADERS_READ,
    NAME,
    NO_RECORD,
    NUMBERS,
    OFFSET,
    PART,
    STRETCH,
    TIMESTAMP,
    Unreadable,
)

BATCH_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
BATCH_FROM: Final = 12
"""The position of the first byte that a batch's length field counts."""

LEAST_LENGTH: Final = 14
"""The minimum of a batch's length field, in any format."""

MAGIC_AT: Final = 16
ATTRIBUTES_AT: Final = 21
FORMAT: Final = 2
COMPRESSION: Final = 0x07
APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
MAX_BASE_OFFSET: Final = (1 << 63) - (1 << 32)
"""The largest base offset that cannot overflow within a batch."""

MIN_INT64: Final = -(1 << 63)
MAX_INT64: Final = (1 << 63) - 1
BITS: Final = (1 << 64) - 1
MOST_VARINT_BITS: Final = 63
CONTINUES: Final = 0x80
LONG_OR_BELOW_0: Final = 0x81
"""Bits of a length's first byte that mark a longer or a negative length."""

WITHOUT: Final = -1
"""Length field of a null."""


@dataclass(slots=True)
class Record:
    """A record with the same fields as aiokafka's records."""

    offset: int
    timestamp: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    checksum: None = None


class RecordBatch:
    """A record batch with `stretches` and all that aiokafka's `PartitionRecords` uses."""

    crc: int

    def __init__(self, log: bytes) -> None:
        if len(log) < BATCH_HEADER.size:
            raise CorruptRecordException(f"a record batch of {len(log)} bytes has no header")
        (
            self.base_offset, _, _, self.magic, self.crc, self.attributes, self.last_offset_delta,
            self.first_timestamp, self.max_timestamp, self.producer_id, self.producer_epoch,
            self.base_sequence, self._count,
        ) = BATCH_HEADER.unpack_from(log)  # fmt: skip
        if not 0 <= self.base_offset <= MAX_BASE_OFFSET:
            raise CorruptRecordException(f"a record batch begins at offset {self.base_offset}")
        self._log = log
        self.compression_type = self.attributes & COMPRESSION
        self.timestamp_type = int(bool(self.attributes & APPEND_TIME))
        self.is_transactional = bool(self.attributes & TRANSACTIONAL)
        self.is_control_batch = bool(self.attributes & CONTROL)
        self.next_offset = self.base_offset + max(self.last_offset_delta, 0) + 1

    def validate_crc(self) -> bool:
        return int(calc_crc32c(self._log[ATTRIBUTES_AT:])) == self.crc

    def __iter__(self) -> Iterator[Record | Unreadable]:
        return chain.from_iterable(self.stretches())

    def __next__(self) -> Record:
        """Return the first record, which is the marker in a control batch."""
        first: Record = marker(next(iter(self)))
        return first

    def stretches(
        self, most_bytes: int = MAX_UNPACKED_BYTES
    ) -> Iterator[list[Record | Unreadable]]:
        """Yield the records in order, in lists of 1 to `STRETCH` records."""
        fault, payload = "", self._log[BATCH_HEADER.size :]
        if not 0 <= self._count <= min(self.last_offset_delta + 1, MAX_BATCH_RECORDS):
            fault = COUNT
        elif self.compression_type:
            try:
                payload = decompress(self.compression_type, payload, most_bytes)
            except NotUnpacked as why:
                fault = str(why)
        if not fault and not self._count and payload:
            fault = BEHIND
        if fault or self.last_offset_delta < 0:
            yield [self._unreadable(self.base_offset, self.next_offset - 1, fault or COUNT)]
        else:
            yield from self._records(payload)

    def _records(self, payload: bytes) -> Iterator[list[Record | Unreadable]]:
        at, place = 0, self.base_offset
        found: list[Record | Unreadable] = []
        for left in range(self._count - 1, -1, -1):
            try:
                length, begin = _read_varint(payload, at)
            except IndexError:
                length, begin = WITHOUT, at
            if not 0 <= length <= len(payload) - begin:
                found.append(self._unreadable(place, self.next_offset - 1, NO_RECORD))
                break
            at = begin + length
            record = self._record(payload[begin:at], place, self.next_offset - 1 - left)
            place = record.offset + 1
            if not left and at != len(payload):
                record = self._unreadable(record.offset, record.offset, BEHIND)
            found.append(record)
            if len(found) == STRETCH:
                yield found
                found = []
        if found:
            yield found

    def _record(self, body: bytes, place: int, last: int) -> Record | Unreadable:
        """Parse a record; return Unreadable if its offset is not in `place`..`last`."""
        try:
            stamp_delta, at = _read_varint(body, 1)
            delta, at = _read_varint(body, at)
        except IndexError:
            return self._unreadable(place, place, NUMBERS)
        offset = self.base_offset + delta
        if not place <= offset <= last:
            return self._unreadable(place, place, OFFSET)
        stamp_ms = self.max_timestamp if self.timestamp_type else self.first_timestamp + stamp_delta
        if not MIN_INT64 <= stamp_ms <= MAX_INT64:
            return self._unreadable(offset, offset, TIMESTAMP)
        end = len(body)
        fault = PART
        try:
            key, at = _read_bytes(body, at, end)
            value, at = _read_bytes(body, at, end)
            fault = HEADERS
            count, at = _read_varint(body, at)
            if not 0 <= count <= MAX_HEADERS_READ:
                raise IndexError
            headers: list[tuple[str, bytes | None]] = []
            for _ in range(count):
                fault = NAME
                size = body[at]
                begin = at + 1
                at = begin + (size >> 1)
                if size & LONG_OR_BELOW_0 or at > end:
                    name, at = _read_bytes(body, begin - 1, end)
                else:
                    name = body[begin:at]
                fault = HEADER
                size = body[at]
                begin = at + 1
                at = begin + (size >> 1)
                if size & LONG_OR_BELOW_0 or at > end:
                    content, at = _read_bytes(body, begin - 1, end)
                else:
                    content = body[begin:at]
                fault = NAME
                if name is None:
                    raise IndexError
                headers.append((name.decode(), content))
        except (IndexError, UnicodeDecodeError):
            return self._unreadable(offset, offset, fault)
        if at != end:
            return self._unreadable(offset, offset, LENGTH)
        return Record(offset, stamp_ms, self.timestamp_type, key, value, headers)

    def _unreadable(self, first: int, last: int, detail: str) -> Unreadable:
        stamp_ms = self.max_timestamp if self.timestamp_type else self.first_timestamp
        return Unreadable(first, last, stamp_ms, self.timestamp_type, detail)


def marker(first: Any) -> Any:
    """Return the marker of a control batch; raise CorruptRecordException if it cannot be read."""
    if isinstance(first, Unreadable):
        raise CorruptRecordException(f"a control batch cannot be read: {first.detail}")
    return first


def _read_varint(log: bytes, at: int) -> tuple[int, int]:
    """Return the varint at `at`, and the position after it.

    Raises IndexError if the log ends within the varint, or if the varint has more than ten bytes.
    """
    bits = log[at]
    at += 1
    if bits >= CONTINUES:
        bits &= ~CONTINUES
        for shift in range(7, MOST_VARINT_BITS + 1, 7):
            byte = log[at]
            at += 1
            bits |= (byte & ~CONTINUES) << shift
            if byte < CONTINUES:
                bits &= BITS
                break
        else:
            raise IndexError
    return (bits >> 1) ^ -(bits & 1), at


def _read_bytes(body: bytes, at: int, end: int) -> tuple[bytes | None, int]:
    """Return the bytes whose length is at `at`, or None for null, and the position after them.

    Raises IndexError if the bytes do not end before or at `end`.
    """
    size, at = _read_varint(body, at)
    if size == WITHOUT:
        return None, at
    if not 0 <= size <= end - at:
        raise IndexError
    return body[at : at + size], at + size


class OlderBatch:
    """A batch of an older format, as aiokafka reads it."""

    def __init__(self, log: bytes) -> None:
        self._batch = MemoryRecords(log).next_batch()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._batch, name)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._batch)

    def stretches(self, _: int = MAX_UNPACKED_BYTES) -> Iterator[list[Any]]:
        return ([record] for record in self._batch)


class Batches:
    """The batches of one partition in a fetch response; the last one may be incomplete.

    The interface is that of aiokafka's `MemoryRecords`.
    """

    def __init__(self, log: bytes) -> None:
        self._log = log
        self._at = 0

    def size_in_bytes(self) -> int:
        return len(self._log)

    def _find_batch_end(self) -> int | None:
        """Return the position after the next batch, or None if that batch is incomplete."""
        if len(self._log) - self._at < BATCH_FROM:
            return None
        (length,) = struct.unpack_from(">i", self._log, self._at + 8)
        end = self._at + BATCH_FROM + max(int(length), 0)  # `next_batch` refuses a negative length.
        return end if end <= len(self._log) else None

    def has_next(self) -> bool:
        return self._find_batch_end() is not None

    def next_batch(self) -> RecordBatch | OlderBatch | None:
        end = self._find_batch_end()
        if end is None:
            return None
        log = self._log[self._at : end]
        if len(log) < BATCH_FROM + LEAST_LENGTH:
            raise CorruptRecordException(
                f"a record batch says that it has {len(log) - BATCH_FROM} bytes, fewer than any has"
            )
        self._at = end
        return RecordBatch(log) if log[MAGIC_AT] == FORMAT else OlderBatch(log)
