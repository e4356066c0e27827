# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Record batches of format 2, as a fetch brings them: a face like aiokafka's, one pass in C.

`memory_records` stands where aiokafka's fetcher makes its `MemoryRecords`. What is of an older
format goes there whole. A batch is decoded at one go when it is iterated over, and its records
keep their headers as the bytes they came as (`Record.block`) until somebody asks for `headers`.

What aiokafka takes is taken, what it refuses is refused, with its exceptions
(`CorruptRecordException`; `UnicodeDecodeError` for the name of a header), and the records before
the fault come first, as there. Every length is held against the end of the batch before anything
is read by it; aiokafka reads on a little further before it notices.

Proved by: tests/codec/test_reading.py
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp

from codec.native.checksum cimport crc32c
from codec.native.wire cimport cursor, take_length, take_varint

from aiokafka.errors import CorruptRecordException
from aiokafka.record.memory_records import MemoryRecords

from codec.compression import uncompressed

cdef extern from *:
    """
    #ifndef CODEC_SOURCES
    #define CODEC_SOURCES ""
    #endif
    """
    const char* CODEC_SOURCES

SOURCES = CODEC_SOURCES.decode()
"""The digest of what this was built from (setup.py)."""

cdef enum:
    LENGTH_AT = 8
    BATCH_FROM = 12  # what the length counts begins here
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

    LEAST_LENGTH = 14  # of any format; below it aiokafka does not look on
    COMPRESSION = 0x07
    APPEND_TIME = 0x08
    TRANSACTIONAL = 0x10
    CONTROL = 0x20


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


cdef inline int64_t added(int64_t a, int64_t b) noexcept:
    """As two's complement has it, which is what aiokafka's sums come to."""
    return <int64_t>(<uint64_t>a + <uint64_t>b)


cdef inline bint is_ascii(cursor p, int64_t size) noexcept:
    cdef uint8_t every = 0
    cdef int64_t i
    for i in range(size):
        every |= p[i]
    return every < 0x80


@cython.final
@cython.freelist(1024)
cdef class Record:
    """As aiokafka's, but for the headers. The fields that only C sees are what a reader of events
    found in them, for whoever writes the record on (codec.native.batches):

    `block` holds `count` headers. `kept` of them, up to `kept_to`, are to be copied; behind these
    stand the stamps of the stage before. `seq` and `epoch` are the numbers the record bears, -1
    for none; `seq_from` and `seq_to` are where the number's header stands. `contract` names the
    header names that this was read by.
    """

    def __cinit__(self):
        self.kept_to = UNREAD
        self.block = b""

    @property
    def checksum(self):
        return None

    @property
    def headers(self):
        """(name, value) as aiokafka has them: made anew each time."""
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
    """What aiokafka's `PartitionRecords` asks of a batch."""

    cdef bytes _log
    cdef Py_ssize_t _from, _to
    cdef readonly int64_t base_offset, first_timestamp, max_timestamp, producer_id
    cdef readonly int last_offset_delta, attributes, producer_epoch, base_sequence
    cdef int32_t _count
    cdef object _fault

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
        return self.base_offset + self.last_offset_delta + 1

    def validate_crc(self):
        return crc32c(self._log, self._from + ATTRIBUTES_AT, self._to) == self.crc

    def __iter__(self):
        cdef bytes log = self._log
        cdef Py_ssize_t begin = self._from + RECORDS_AT, end = self._to
        if self.attributes & COMPRESSION:
            log = uncompressed(self.attributes & COMPRESSION, log[begin:end])
            begin, end = 0, PyBytes_GET_SIZE(log)
        found = self._records(log, begin, end)
        return iter(found) if self._fault is None else _until(found, self._fault)

    def __next__(self):
        """The first record, which is how a control batch is asked for its marker."""
        found = self._records(self._log, self._from + RECORDS_AT, self._to)
        if found:
            return found[0]
        raise StopIteration if self._fault is None else self._fault

    cdef list _records(self, bytes log, Py_ssize_t begin, Py_ssize_t end):
        """The records, up to the first that is not well formed; `_fault` is then what is wrong."""
        cdef cursor p = <cursor>PyBytes_AS_STRING(log) + begin
        cdef cursor stop = <cursor>PyBytes_AS_STRING(log) + end
        cdef list found = []
        cdef bytes last_key = None
        cdef Record record
        cdef int32_t i
        self._fault = None
        for i in range(self._count):
            record = Record.__new__(Record)
            try:
                self._take(record, &p, stop, last_key)
            except (CorruptRecordException, UnicodeDecodeError) as fault:
                self._fault = fault
                return found
            last_key = record.key
            found.append(record)
        if p != stop:
            self._fault = CorruptRecordException(
                f"{stop - p} bytes are left behind the last record"
            )
        return found

    cdef int _take(self, Record record, cursor* at, cursor end, bytes last_key) except -1:
        """Its length is held against what was read at the last, as there; until then the end of
        the batch is the bound."""
        cdef int64_t length = 0, size = 0, value_size = 0, delta = 0, offset_delta = 0, count = 0, i
        cdef cursor p = at[0]
        cdef cursor begin, headers, name
        if not take_varint(&p, end, &length):
            return corrupt("a batch ends amid the length of a record")
        begin = p
        # The record's own attributes say nothing; aiokafka reads them as a varint.
        if not (
            take_varint(&p, end, &delta)
            and take_varint(&p, end, &delta)
            and take_varint(&p, end, &offset_delta)
        ):
            return corrupt("a batch ends amid the numbers of a record")
        record.offset = added(self.base_offset, offset_delta)
        record.timestamp_type = 1 if self.attributes & APPEND_TIME else 0
        record.timestamp = (
            self.max_timestamp if record.timestamp_type else added(self.first_timestamp, delta)
        )
        if not take_length(&p, end, &size):
            return corrupt("a key's length points over the end of its batch")
        if size >= 0:
            if (
                last_key is not None
                and PyBytes_GET_SIZE(last_key) == size
                and memcmp(PyBytes_AS_STRING(last_key), p, size) == 0
            ):
                record.key = last_key
            else:
                record.key = PyBytes_FromStringAndSize(<const char*>p, size)
            p += size
        if not take_length(&p, end, &size):
            return corrupt("a value's length points over the end of its batch")
        if size >= 0:
            record.value = PyBytes_FromStringAndSize(<const char*>p, size)
            p += size
        if not take_varint(&p, end, &count) or count < 0:
            return corrupt("a record has no count of headers, or one that is none")
        headers = p
        for i in range(count):
            if not take_length(&p, end, &size) or size < 0:
                return corrupt("the length of a header's name points over the end of its batch")
            name = p
            p += size
            if not take_length(&p, end, &value_size):
                return corrupt("the length of a header points over the end of its batch")
            if value_size > 0:
                p += value_size
            if not is_ascii(name, size):
                PyUnicode_DecodeUTF8(<const char*>name, size, NULL)
        if p - begin != length:
            return corrupt("a record has another length than it says")
        record.count = <int32_t>count
        record.block = PyBytes_FromStringAndSize(<const char*>headers, p - headers)
        at[0] = p
        return 0


cdef int corrupt(str what) except -1:
    raise CorruptRecordException(what)


def _until(found, fault):
    yield from found
    raise fault


@cython.final
cdef class _Batches:
    """One partition's share of a fetch: batch behind batch, the last one perhaps cut off."""

    cdef bytes _log
    cdef Py_ssize_t _at

    def __cinit__(self, bytes log):
        self._log = log

    def size_in_bytes(self):
        return PyBytes_GET_SIZE(self._log)

    cdef int64_t _length(self) except -2:
        """How long the next batch is, behind its length; -1: what is left is too short to say."""
        if PyBytes_GET_SIZE(self._log) - self._at < BATCH_FROM:
            return -1
        cdef int64_t length = int32_at(<cursor>PyBytes_AS_STRING(self._log) + self._at + LENGTH_AT)
        if length < 0:  # `next_batch` refuses it
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
        return RecordBatch(self._log, begin, self._at)


def memory_records(bytes log not None):
    """In the place of aiokafka's `MemoryRecords`, which decides the format by the first batch."""
    if PyBytes_GET_SIZE(log) > MAGIC_AT and (<cursor>PyBytes_AS_STRING(log))[MAGIC_AT] == 2:
        return _Batches(log)
    return MemoryRecords(log)
