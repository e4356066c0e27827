# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Reads record batches of format 2 in one pass in C, with aiokafka's interface.

`memory_records` replaces `MemoryRecords` in aiokafka's fetcher. Batches of an older format go to
aiokafka. A batch is decoded in stretches. Its records keep their headers as bytes
(`Record.block`) until `headers` is requested.

`codec.batches` is the reference: this module reads the same records, and reports the same records
as unreadable, with the same messages. Every length is compared with the end of its record before it
is used.

Proved by: tests/codec/test_reading.py, tests/codec/test_hostile.py
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.list cimport PyList_GET_SIZE
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport INT64_MAX, INT64_MIN, int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp

from codec.native.checksum cimport crc32c
from codec.native.wire cimport cursor, size_of_varint, take_length, take_varint

from itertools import chain

from aiokafka.errors import CorruptRecordException

from codec import batches as plain
from codec import face
from codec.compression import MAX_UNPACKED_BYTES, NotUnpacked, decompress
from codec.face import (
    BEHIND, COUNT, HEADER, HEADERS, LENGTH, NAME, NO_RECORD, NUMBERS, OFFSET, PART, TIMESTAMP,
    Unreadable,
)

cdef extern from *:
    """
    #ifndef CODEC_SOURCES
    #define CODEC_SOURCES ""
    #endif
    """
    const char* CODEC_SOURCES

SOURCES = CODEC_SOURCES.decode()
"""The digest of the sources from which this module was built (setup.py)."""

cdef enum:
    LENGTH_AT = 8
    BATCH_FROM = 12  # The batch's length counts the bytes from here.
    MAGIC_AT = 16
    CRC_AT = 17
    ATTRIBUTES_AT = 21
    LAST_OFFSET_DELTA_AT = 23
    FIRST_TIMESTAMP_AT = 27
    MAX_TIMESTAMP_AT = 35
    PRODUCER_ID_AT = 43
    PRODUCER_EPOCH_AT = 51
    BASE_SEQUENCE_AT = 53
    COUNT_AT = 57
    RECORDS_AT = 61

    LEAST_LENGTH = 14  # aiokafka refuses shorter batches of every format.
    COMPRESSION = 0x07
    APPEND_TIME = 0x08
    TRANSACTIONAL = 0x10
    CONTROL = 0x20
    FORMAT = 2

cdef int64_t max_base_offset = plain.MAX_BASE_OFFSET
cdef int32_t max_batch_records = face.MAX_BATCH_RECORDS
cdef int32_t max_headers = face.MAX_HEADERS_READ
cdef Py_ssize_t stretch = face.STRETCH


cdef inline uint64_t big_endian(cursor p, int size) noexcept:
    cdef uint64_t value = 0
    cdef int i
    for i in range(size):
        value = value << 8 | p[i]
    return value


cdef inline int32_t int32_at(cursor p) noexcept:
    return <int32_t><uint32_t>big_endian(p, 4)


cdef inline int64_t int64_at(cursor p) noexcept:
    return <int64_t>big_endian(p, 8)


cdef inline bint overflows(int64_t a, int64_t b) noexcept:
    """Return whether a + b overflows int64."""
    return a > INT64_MAX - b if b > 0 else a < INT64_MIN - b


cdef inline bint is_ascii(cursor p, int64_t size) noexcept:
    cdef uint8_t every = 0
    cdef int64_t i
    for i in range(size):
        every |= p[i]
    return every < 0x80


@cython.final
@cython.freelist(1024)
cdef class Record:
    """A record with the fields of aiokafka's records, and headers that are decoded on request."""
    # A reader of events sets the fields that are visible only in C. codec.native.batches uses
    # them when it writes the record again. `block` has `count` headers. `kept` of them, up to
    # `kept_to`, are copied, and the stamps of the previous stage follow them. `is_padded` is true
    # if a header's length is encoded in more bytes than needed. `seq` and `epoch` are -1 if the
    # record has none. The header of the number is from `seq_from` to `seq_to`. `contract`
    # identifies the header names used for reading.

    def __cinit__(self):
        self.kept_to = UNREAD
        self.block = b""

    @property
    def checksum(self):
        return None

    @property
    def headers(self):
        """Return (name, value) pairs as aiokafka does, decoded at each call."""
        cdef cursor p = <cursor>PyBytes_AS_STRING(self.block)
        cdef cursor end = p + PyBytes_GET_SIZE(self.block)
        cdef int64_t size = 0
        cdef list found = []
        for _ in range(self.count):
            take_length(&p, end, &size)
            name = PyUnicode_DecodeUTF8(<const char*>p, size, NULL)
            p += size
            take_length(&p, end, &size)
            if size < 0:
                found.append((name, None))
            else:
                found.append((name, PyBytes_FromStringAndSize(<const char*>p, size)))
                p += size
        return found

    def __repr__(self):
        return f"<Record offset={self.offset} headers={self.headers}>"


@cython.final
cdef class RecordBatch:
    """A record batch with the interface for aiokafka's `PartitionRecords`, and with `stretches`."""

    cdef bytes _log
    cdef Py_ssize_t _from, _to
    cdef readonly int64_t base_offset, first_timestamp, max_timestamp, producer_id
    cdef readonly int last_offset_delta, attributes, producer_epoch, base_sequence
    cdef int32_t _count

    def __cinit__(self, bytes log, Py_ssize_t begin, Py_ssize_t end):
        if begin < 0 or end > PyBytes_GET_SIZE(log) or end - begin < RECORDS_AT:
            raise CorruptRecordException(f"a record batch of {end - begin} bytes has no header")
        self._log, self._from, self._to = log, begin, end
        cdef cursor p = <cursor>PyBytes_AS_STRING(log) + begin
        self.base_offset = int64_at(p)
        self.attributes = <int16_t>big_endian(p + ATTRIBUTES_AT, 2)
        self.last_offset_delta = int32_at(p + LAST_OFFSET_DELTA_AT)
        self.first_timestamp = int64_at(p + FIRST_TIMESTAMP_AT)
        self.max_timestamp = int64_at(p + MAX_TIMESTAMP_AT)
        self.producer_id = int64_at(p + PRODUCER_ID_AT)
        self.producer_epoch = <int16_t>big_endian(p + PRODUCER_EPOCH_AT, 2)
        self.base_sequence = int32_at(p + BASE_SEQUENCE_AT)
        self._count = int32_at(p + COUNT_AT)
        if not 0 <= self.base_offset <= max_base_offset:
            raise CorruptRecordException(f"a record batch begins at offset {self.base_offset}")

    @property
    def magic(self):
        return (<cursor>PyBytes_AS_STRING(self._log))[self._from + MAGIC_AT]

    @property
    def crc(self):
        return <uint32_t>big_endian(<cursor>PyBytes_AS_STRING(self._log) + self._from + CRC_AT, 4)

    @property
    def compression_type(self):
        return self.attributes & COMPRESSION

    @property
    def timestamp_type(self):
        return 1 if self.attributes & APPEND_TIME else 0

    @property
    def is_transactional(self):
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control_batch(self):
        return bool(self.attributes & CONTROL)

    @property
    def next_offset(self):
        return self._last() + 1

    cdef inline int64_t _last(self):
        """Return the last offset that the batch states."""
        return self.base_offset + max(self.last_offset_delta, 0)

    def validate_crc(self):
        return crc32c(self._log, self._from + ATTRIBUTES_AT, self._to) == self.crc

    def __iter__(self):
        return chain.from_iterable(self.stretches())

    def __next__(self):
        """Return the first record, which is the marker of a control batch."""
        return plain.marker(next(iter(self)))

    def stretches(self, most_bytes=MAX_UNPACKED_BYTES):
        """Return an iterator over lists of at most `STRETCH` records; no list is empty."""
        cdef _Stretches found = _Stretches.__new__(_Stretches)
        cdef int32_t most = max_batch_records
        cdef str fault = None
        found.batch, found.log = self, self._log
        found.at, found.end = self._from + RECORDS_AT, self._to
        if not 0 <= self._count <= min(<int64_t>self.last_offset_delta + 1, <int64_t>most):
            fault = COUNT
        elif self.attributes & COMPRESSION:
            try:
                found.log = decompress(
                    self.attributes & COMPRESSION, self._log[found.at : found.end], most_bytes
                )
                found.at, found.end = 0, PyBytes_GET_SIZE(found.log)
            except NotUnpacked as why:
                fault = str(why)
        if fault is None and not self._count and found.at != found.end:
            fault = BEHIND
        if fault is None and self.last_offset_delta < 0:
            fault = COUNT
        if fault is not None:
            return iter([[self._unreadable(self.base_offset, self._last(), fault)]])
        found.left, found.place = self._count, self.base_offset
        return found

    cdef object _unreadable(self, int64_t first, int64_t last, str detail):
        cdef bint is_appended = self.attributes & APPEND_TIME
        stamp_ms = self.max_timestamp if is_appended else self.first_timestamp
        return Unreadable(first, last, stamp_ms, 1 if is_appended else 0, detail)


@cython.final
cdef class _Stretches:
    """The progress of decoding a batch: `left` records remain, and `place` is the next offset."""

    cdef RecordBatch batch
    cdef bytes log, last_key
    cdef Py_ssize_t at, end
    cdef int32_t left
    cdef int64_t place

    def __iter__(self):
        return self

    def __next__(self):
        cdef cursor begin = <cursor>PyBytes_AS_STRING(self.log)
        cdef cursor p = begin + self.at
        cdef cursor stop = begin + self.end
        cdef list found = []
        cdef int64_t length = 0, last
        cdef Record record
        while self.left and PyList_GET_SIZE(found) < stretch:
            self.left -= 1
            if not take_varint(&p, stop, &length) or not 0 <= length <= stop - p:
                found.append(self.batch._unreadable(self.place, self.batch._last(), NO_RECORD))
                self.left = 0
                break
            last = self.batch._last() - self.left
            record = Record.__new__(Record)
            record.offset = self.place
            fault = self._take(record, p, p + length, last)
            p += length
            self.place = record.offset + 1
            if not self.left and p != stop:
                fault = BEHIND
            if fault is None:
                self.last_key = record.key
                found.append(record)
            else:
                found.append(self.batch._unreadable(record.offset, record.offset, fault))
        self.at = p - begin
        if not found:
            raise StopIteration
        return found

    cdef str _take(self, Record record, cursor p, cursor end, int64_t last):
        """Return the fault of the record from `p` to `end`, or None if it is well formed."""
        # At first, the record's offset is the smallest that it may have. It is replaced by the
        # stated offset, if that is not smaller and at most `last`.
        cdef int64_t size = 0, value_size = 0, delta = 0, offset_delta = 0, count = 0, i
        cdef int64_t usual = 0
        cdef RecordBatch batch = self.batch
        cdef bint is_name
        cdef cursor headers, name
        if p == end:
            return NUMBERS
        p += 1  # The record's own attributes have no meaning.
        if not (take_varint(&p, end, &delta) and take_varint(&p, end, &offset_delta)):
            return NUMBERS
        if not record.offset - batch.base_offset <= offset_delta <= last - batch.base_offset:
            return OFFSET
        record.offset = batch.base_offset + offset_delta
        record.timestamp_type = 1 if batch.attributes & APPEND_TIME else 0
        if record.timestamp_type:
            record.timestamp = batch.max_timestamp
        elif overflows(batch.first_timestamp, delta):
            return TIMESTAMP
        else:
            record.timestamp = batch.first_timestamp + delta
        if not take_length(&p, end, &size):
            return PART
        if size >= 0:
            if (
                self.last_key is not None
                and PyBytes_GET_SIZE(self.last_key) == size
                and memcmp(PyBytes_AS_STRING(self.last_key), p, size) == 0
            ):
                record.key = self.last_key
            else:
                record.key = PyBytes_FromStringAndSize(<const char*>p, size)
            p += size
        if not take_length(&p, end, &size):
            return PART
        if size >= 0:
            record.value = PyBytes_FromStringAndSize(<const char*>p, size)
            p += size
        if not take_varint(&p, end, &count) or not 0 <= count <= max_headers:
            return HEADERS
        headers = p
        for i in range(count):
            if not take_length(&p, end, &size):
                return NAME
            name = p
            is_name = size >= 0
            if is_name:
                p += size
            if not take_length(&p, end, &value_size):
                return HEADER
            usual += size_of_varint(size) + size + size_of_varint(value_size)
            if value_size > 0:
                p += value_size
                usual += value_size
            if not is_name:
                return NAME
            if not is_ascii(name, size):
                try:
                    PyUnicode_DecodeUTF8(<const char*>name, size, NULL)
                except UnicodeDecodeError:
                    return NAME
        if p != end:
            return LENGTH
        record.count = <int32_t>count
        record.is_padded = p - headers != usual
        record.block = PyBytes_FromStringAndSize(<const char*>headers, p - headers)
        return None


@cython.final
cdef class _Batches:
    """One partition's part of a fetch: consecutive batches, the last of which may be incomplete."""

    cdef bytes _log
    cdef Py_ssize_t _at

    def __cinit__(self, bytes log):
        self._log = log

    def size_in_bytes(self):
        return PyBytes_GET_SIZE(self._log)

    cdef int64_t _length(self) except -2:
        """Return the length that the next batch states, or -1 if the batch is incomplete."""
        if PyBytes_GET_SIZE(self._log) - self._at < BATCH_FROM:
            return -1
        cdef int64_t length = int32_at(<cursor>PyBytes_AS_STRING(self._log) + self._at + LENGTH_AT)
        if length < 0:  # `next_batch` refuses such a batch.
            return 0
        return length if length <= PyBytes_GET_SIZE(self._log) - self._at - BATCH_FROM else -1

    def has_next(self):
        return self._length() >= 0

    def next_batch(self):
        cdef int64_t length = self._length()
        cdef Py_ssize_t begin = self._at
        if length < 0:
            return None
        if length < LEAST_LENGTH:
            raise CorruptRecordException(
                f"a record batch says that it has {length} bytes, fewer than any has"
            )
        self._at = begin + BATCH_FROM + length
        if (<cursor>PyBytes_AS_STRING(self._log))[begin + MAGIC_AT] != FORMAT:
            return plain.OlderBatch(self._log[begin : self._at])
        return RecordBatch(self._log, begin, self._at)


def memory_records(bytes log not None):
    """Return the batches of a log, as a replacement for aiokafka's `MemoryRecords`."""
    return _Batches(log)
