# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Writes record batches, and events into them as copies of their records.

`RecordBatchWriter` has the interface of aiokafka's `BatchBuilder` and gives the same bytes.

An event is *plain* for `EventWriter` if

* it is not a control event, and codec.native.events found its record plain, with the same header
  names,
* its number is the record's, or replaces it in the same header; if the record has no number, it is
  added after the record's own headers,
* its epoch is the record's; if the record has none, it is added there too, unless it is 0,
* the stamps of the previous stage, if any, follow all other headers, so that they can be removed.

The record is then copied with its header block, and this stage's stamps are added after it. Every
other event is passed unchanged to `general`, the reference writer (topology.records.header_writer).

Proved by: tests/codec/test_writing.py
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Free, PyMem_Malloc, PyMem_Realloc
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memcpy

from codec.native.checksum cimport crc32c
from codec.native.records cimport Record
from codec.native.wire cimport (
    cursor, put_bytes, put_number, put_varint, size_of_varint,
)

import struct
import time

from codec.compression import BY_NAME, compress
from codec.face import ORDERED, SEQUENCED
from codec.native.events import contract_number

cdef extern from "Python.h":
    const char* PyUnicode_AsUTF8AndSize(object text, Py_ssize_t* size) except NULL
    long long PyLong_AsLongLongAndOverflow(object number, int* overflow) except? -1

cdef enum:
    RECORDS_AT = 61
    CHECKSUM_AT = 17
    ATTRIBUTES_AT = 21
    LENGTH_FROM = 12
    TRANSACTIONAL = 0x10
    FIRST_ROOM = 1 << 14
    NS_PER_MS = 1_000_000
    MAX_LATE_BYTES = 64
    MAX_NAME_BYTES = 258  # This includes the bytes of the length.
    STAMPS_ROOM = 1024  # Two names, eight numbers, and a cause of lateness fit.

BATCH_HEADER = struct.Struct(">qiibIhiqqqhii")
NO_PRODUCER = (-1, -1, 0)


@cython.final
cdef class RecordBatchWriter:
    """A batch of at most `limit` bytes before compression; a larger first record is accepted."""

    cdef uint8_t* _buffer
    cdef Py_ssize_t _used, _room, _limit
    cdef int64_t _first, _latest
    cdef int32_t _count
    cdef int _compression
    cdef bint _is_transactional, _is_closed
    cdef tuple _producer
    cdef object _built

    def __cinit__(self, Py_ssize_t limit, int compression, bint is_transactional):
        self._room = FIRST_ROOM
        self._buffer = <uint8_t*>PyMem_Malloc(self._room)
        if self._buffer is NULL:
            raise MemoryError
        self._used, self._limit = RECORDS_AT, limit
        self._first = self._latest = -1
        self._compression = compression
        self._is_transactional = is_transactional
        self._producer = NO_PRODUCER

    def __dealloc__(self):
        PyMem_Free(self._buffer)

    cdef uint8_t* _begin(self, int64_t body, int64_t timestamp) except? NULL:
        """Begin a record; return the address for its `body` bytes, or NULL if it does not fit."""
        cdef int64_t delta = timestamp - self._first if self._count else 0
        cdef int64_t size = 1 + size_of_varint(delta) + size_of_varint(self._count) + body
        cdef int64_t whole = size + size_of_varint(size)
        cdef uint8_t* p
        cdef Py_ssize_t room = self._room
        if self._is_closed:
            return NULL
        if self._count and self._used + whole >= self._limit:
            self._is_closed = True
            return NULL
        if self._used + whole > room:
            while self._used + whole > room:
                room *= 2
            p = <uint8_t*>PyMem_Realloc(self._buffer, room)
            if p is NULL:
                raise MemoryError
            self._buffer, self._room = p, room
        if not self._count:
            self._first = self._latest = timestamp
        elif timestamp > self._latest:
            self._latest = timestamp
        p = put_varint(self._buffer + self._used, size)
        p[0] = 0
        p = put_varint(put_varint(p + 1, delta), self._count)
        self._used += whole
        self._count += 1
        return p

    def append(self, *, timestamp, key, value, headers=()):
        """Append any record; return None if it does not fit."""
        cdef int64_t stamp_ms = int(time.time() * 1000) if timestamp is None else timestamp
        cdef int64_t size
        cdef uint8_t* p
        cdef list parts = [as_bytes(key), as_bytes(value)]
        for name, content in headers or ():
            if not (content is None or type(content) is bytes):
                raise TypeError(f"the header {name} has no bytes as its value")
            parts.append(name.encode())
            parts.append(content)
        cdef Py_ssize_t count = (len(parts) - 2) // 2
        size = size_of_varint(count)
        for part in parts:
            size += size_of_part(<bytes>part)
        p = self._begin(size, stamp_ms)
        if p is NULL:
            return None
        p = put_part(put_part(p, parts[0]), parts[1])
        p = put_varint(p, count)
        for part in parts[2:]:
            p = put_part(p, <bytes>part)
        return True

    def close(self):
        self._is_closed = True

    def closed(self):
        return bool(self._is_closed)

    def record_count(self):
        return self._count

    def size(self):
        """Return the current size in bytes."""
        return self._used if self._built is None else len(self._built)

    def _set_producer_state(self, producer_id, producer_epoch, base_sequence):
        self._producer = (producer_id, producer_epoch, base_sequence)

    def _build(self):
        self._is_closed = True
        if self._built is None:
            self._built = self._whole()
            PyMem_Free(self._buffer)
            self._buffer = NULL
        return self._built

    cdef bytes _whole(self):
        """Build the batch without a second copy, which would cost more than its checksum."""
        cdef const char* records = <const char*>self._buffer + RECORDS_AT
        cdef Py_ssize_t size = self._used - RECORDS_AT
        cdef bytes packed, header, batch
        cdef char* whole
        cdef uint32_t checksum
        cdef int i
        if self._compression:
            packed = compress(self._compression, PyBytes_FromStringAndSize(records, size))
            records, size = PyBytes_AS_STRING(packed), PyBytes_GET_SIZE(packed)
        header = BATCH_HEADER.pack(
            0, RECORDS_AT - LENGTH_FROM + size, -1, 2, 0,
            self._compression | (TRANSACTIONAL if self._is_transactional else 0),
            self._count - 1 if self._count else 0, self._first, self._latest,
            *self._producer, self._count,
        )
        batch = PyBytes_FromStringAndSize(NULL, RECORDS_AT + size)
        whole = PyBytes_AS_STRING(batch)
        memcpy(whole, PyBytes_AS_STRING(header), RECORDS_AT)
        memcpy(whole + RECORDS_AT, records, size)
        checksum = crc32c(batch, ATTRIBUTES_AT, RECORDS_AT + size)
        for i in range(4):
            whole[CHECKSUM_AT + i] = <char>(checksum >> (24 - 8 * i) & 0xFF)
        return batch


cdef inline int64_t size_of_part(bytes part) noexcept:
    if part is None:
        return 1
    return size_of_varint(PyBytes_GET_SIZE(part)) + PyBytes_GET_SIZE(part)


cdef inline uint8_t* put_part(uint8_t* p, bytes part) noexcept:
    if part is None:
        return put_varint(p, -1)
    p = put_varint(p, PyBytes_GET_SIZE(part))
    return put_bytes(p, PyBytes_AS_STRING(part), PyBytes_GET_SIZE(part))


cdef bytes as_bytes(content):
    """Return the content as bytes, or None for None; raise TypeError for other types."""
    return content if content is None or type(content) is bytes else bytes(memoryview(content))


def new_batch(limit, compression, *, is_transactional):
    """Return an empty batch; `compression` is a name, or None for no compression."""
    number = 0 if compression is None else BY_NAME[compression]
    return RecordBatchWriter(limit, number, is_transactional)


# The bytes that replace the header of the record's number, and those added after its headers.
cdef struct Written:
    uint8_t numbered[MAX_NAME_BYTES + 24]
    Py_ssize_t numbered_size
    uint8_t behind[STAMPS_ROOM]
    Py_ssize_t behind_size
    int32_t behind_count


@cython.final
cdef class EventWriter:
    """The compiled `codec.face.EventWriter`, described in the module's docstring."""
    # `lane`, the upstream partition, is stamped only on the sequenced topic.

    cdef object _targets, _general
    cdef bytes _seq, _epoch, _ref, _err, _segment, _arrival, _at, _lane, _late
    cdef int64_t _lane_number
    cdef int32_t _contract
    cdef bint _is_sequenced

    def __init__(self, form, targets, general, lane=0):
        assert form.topic in (SEQUENCED, ORDERED)
        self._targets, self._general = targets, general
        self._is_sequenced = form.topic == SEQUENCED
        self._contract = contract_number(form.names)
        self._lane_number = lane
        self._seq, self._epoch = spelled(form.names.seq), spelled(form.names.epoch)
        self._ref, self._err, self._segment = spelled("refTs"), spelled("err"), spelled("segment")
        self._arrival, self._at = spelled("arrival"), spelled("at")
        self._lane, self._late = spelled("lane"), spelled("late")
        if max(len(self._seq), len(self._epoch)) > MAX_NAME_BYTES:
            raise ValueError("a header's name is longer than the contract allows")

    def put_all(self, events, outbox):
        cdef RecordBatchWriter batch = None
        cdef Written written
        cdef Record record
        cdef int64_t stamp_ms = 0, payload_bytes = 0
        cdef int32_t count = 0
        stream = None
        target = None
        for event in events:
            found = event.record
            if not (
                type(found) is Record
                and not event.kind
                and self._is_plain(event, <Record>found, &written, &stamp_ms)
            ):
                self._general(event, outbox)
                stream = None  # The general path may have opened another batch.
                continue
            record = <Record>found
            if event.stream is not stream:
                stream = event.stream
                target = self._targets[stream]
                open_batch = outbox.batch(target)
                if type(open_batch) is not RecordBatchWriter:
                    self._general(event, outbox)
                    stream = None
                    continue
                batch = <RecordBatchWriter>open_batch
            if not copied(batch, record, stamp_ms, &written):
                batch = outbox.next_batch(target)
                copied(batch, record, stamp_ms, &written)  # A first record always fits.
            count += 1
            if record.value is not None:
                payload_bytes += PyBytes_GET_SIZE(record.value)
        outbox.count(count, payload_bytes)

    cdef bint _is_plain(
        self, object event, Record record, Written* written, int64_t* stamp_ms
    ) except -1:
        """Return whether the event is plain, and store the bytes to write besides its record."""
        cdef int64_t seq = 0, epoch = 0, ref_ns = 0, error_ns = 0, segment = 0
        cdef int64_t arrival_ns = 0, at_ns = 0
        cdef Py_ssize_t late_size = 0
        cdef const char* late = NULL
        cdef uint8_t* p = written.behind
        if record.kept_to < 0 or record.contract != self._contract:
            return False
        if not (
            number(event.seq, &seq) and seq >= 0
            and number(event.epoch, &epoch)
            and number(event.ref_time_ns, &ref_ns)
            and number(event.error_ns, &error_ns)
            and number(event.segment, &segment)
            and number(event.at_ns, &at_ns)
        ):
            return False
        epoch = 0 if epoch < 0 else epoch
        if record.epoch >= 0 and record.epoch != epoch:
            return False
        cause = event.late
        if cause:
            late = PyUnicode_AsUTF8AndSize(cause, &late_size)
            if late_size > MAX_LATE_BYTES:
                return False
        written.behind_count = 4
        written.numbered_size = 0
        if not record.seq_to:
            p = put_number(put_name(p, self._seq), seq)
            written.behind_count += 1
        elif record.seq != seq:
            written.numbered_size = (
                put_number(put_name(written.numbered, self._seq), seq) - written.numbered
            )
        if epoch and record.epoch < 0:
            p = put_number(put_name(p, self._epoch), epoch)
            written.behind_count += 1
        p = put_number(put_name(p, self._ref), ref_ns)
        p = put_number(put_name(p, self._err), error_ns)
        p = put_number(put_name(p, self._segment), segment)
        if self._is_sequenced:
            if not number(event.arrival_ns, &arrival_ns):
                return False
            p = put_number(put_name(p, self._arrival), arrival_ns)
            p = put_number(put_name(p, self._at), at_ns)
            p = put_number(put_name(p, self._lane), self._lane_number)
            written.behind_count += 2
            stamp_ms[0] = record.timestamp if record.timestamp > 0 else 0
        else:
            p = put_number(put_name(p, self._at), at_ns)
            stamp_ms[0] = ref_ns // NS_PER_MS if ref_ns > 0 else 0
        if cause:
            p = put_varint(put_name(p, self._late), late_size)
            p = put_bytes(p, late, late_size)
            written.behind_count += 1
        written.behind_size = p - written.behind
        return True


cdef bint copied(
    RecordBatchWriter batch, Record record, int64_t stamp_ms, Written* written
) except -1:
    """Copy the record into the batch; return False if it does not fit."""
    # First the headers up to `kept_to` are written, with the number replaced if it has changed, and
    # then the new headers.
    cdef const char* block = PyBytes_AS_STRING(record.block)
    cdef int64_t kept = record.kept_to
    cdef int64_t count = record.kept + written.behind_count
    if written.numbered_size:
        kept += written.numbered_size - (record.seq_to - record.seq_from)
    cdef uint8_t* p = batch._begin(
        size_of_part(record.key) + size_of_part(record.value)
        + size_of_varint(count) + kept + written.behind_size,
        stamp_ms,
    )
    if p is NULL:
        return False
    p = put_varint(put_part(put_part(p, record.key), record.value), count)
    if written.numbered_size:
        p = put_bytes(p, block, record.seq_from)
        p = put_bytes(p, written.numbered, written.numbered_size)
        p = put_bytes(p, block + record.seq_to, record.kept_to - record.seq_to)
    else:
        p = put_bytes(p, block, record.kept_to)
    put_bytes(p, written.behind, written.behind_size)
    return True


cdef inline uint8_t* put_name(uint8_t* p, bytes name) noexcept:
    return put_bytes(p, PyBytes_AS_STRING(name), PyBytes_GET_SIZE(name))


cdef inline bint number(object value, int64_t* into) except -1:
    """Store the integer in `into`; return False if it does not fit int64."""
    cdef int overflow = 0
    into[0] = PyLong_AsLongLongAndOverflow(value, &overflow)
    return overflow == 0


cdef bytes spelled(str name):
    """Return a header's name in wire format: its length, then its bytes."""
    cdef uint8_t size[10]
    cdef bytes encoded = name.encode()
    cdef uint8_t* end = put_varint(size, PyBytes_GET_SIZE(encoded))
    return PyBytes_FromStringAndSize(<const char*>size, end - size) + encoded
