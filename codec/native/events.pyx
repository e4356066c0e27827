# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Reads events from plain records, and passes all other records to the general path.

A record is *plain* if it is a `Record` of codec.native.records and

* no header of the contract occurs twice (except the number, in a stream by time),
* it has no `kind`,
* source, stream and type are UTF-8, and source and stream are neither empty nor too long,
* number and epoch are digits, and the number is present (in a stream by time it is the offset),
* `ts` is digits that fit int64 as nanoseconds, or RFC 3339 with a year from 1680 to 2260,
* `ts` is absent only if the record has a timestamp,
* on a derived topic it has each required stamp once, in plain digits,
* the stamps of error and segment are not negative, and the upstream partition is known,
* on a raw topic its size and its number of headers are within the limits.

A foreign record (`Form.mapped`) is plain if its value has a source, a number and a time of the
usual types. None of its headers may have a name of the contract or of a stamp. It gets the headers
of the contract before its own.

Every other record is passed unchanged to `general`, the reference reader, which defines all these
terms (topology.records.header_reader). The reader also stores in the record which parts can be copied
and which must be replaced when the record is written again (codec.native.batches).

Equal names of sources, streams and types share one object, until another name replaces it in a
table of `SLOTS` entries. Names longer than `MAX_SHARED_BYTES` are not shared.

Proved by: tests/codec/test_events.py
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memcmp

from codec.native.digest cimport crc32_on, prepare_crc32
from codec.native.records cimport UNREAD, Record
from codec.native.scanner cimport ABSENT, INTEGER, MAX_NAMES, NULL_, TEXT, Field, Scanner
from codec.native.wire cimport (
    cursor, digits, put_bytes, put_number, put_varint, signed_digits, take_length,
)

from msgspec.structs import astuple

from codec.face import MAX_HEADERS, ORDERED, RAW, SEQUENCED, Unreadable
from inorder.contract import DEFAULT_STREAM, MAX_SOURCE_BYTES, MAX_STREAM_BYTES, STAMPED_NAMES
from topology.base.event import NO_EPOCH, Event

cdef extern from "Python.h":
    const char* PyUnicode_AsUTF8AndSize(object text, Py_ssize_t* size) except NULL
    long long PyLong_AsLongLongAndOverflow(object number, int* overflow) except? -1

cdef enum:
    SOURCE, SEQ, EPOCH, TS, STREAM, TYPE, KIND
    REF, ERR, SEGMENT, ARRIVAL, AT, LANE, LATE
    FIELDS  # The stamps from here on are not stored in events.

cdef enum:
    SLOTS = 4096
    MAX_SHARED_BYTES = 256
    MAX_FIELDS = 24
    NS_PER_MS = 1_000_000
    # The general path counts these sizes for a header: its framing, and each character of its name.
    HEADER_FRAMING_BYTES = 16
    MAX_CHARACTER_BYTES = 4
    DAYS_TO_EPOCH = 719_468  # The number of days since 0000-03-01.
    MAX_TYPE_BYTES = 256  # Longer types of mapped records take the general path.
    MAPPED_ROOM = 2048  # Six names, four numbers, a source, a type and a stream fit.

assert STAMPED_NAMES[:7] == ("refTs", "err", "segment", "arrival", "at", "lane", "late")
assert len(STAMPED_NAMES) + 7 <= MAX_FIELDS

cdef int64_t max_ms = 9_223_372_036_854  # The largest value that fits int64 in nanoseconds.
cdef int64_t max_source_bytes = MAX_SOURCE_BYTES
cdef int64_t max_stream_bytes = MAX_STREAM_BYTES
cdef object no_epoch = NO_EPOCH
cdef int32_t max_headers = MAX_HEADERS

contracts = {}
prepare_crc32()


def contract_number(names):
    """Return a number that identifies these header names."""
    return contracts.setdefault(names, len(contracts))


# The position of each field's value, its size (-1 for null), and the fields already seen.
cdef struct Look:
    cursor at[MAX_FIELDS]
    int64_t size[MAX_FIELDS]
    uint32_t seen
    uint32_t repeated


# What a foreign record says. Names are UTF-8, of which a source has at least one byte.
cdef struct Said:
    int64_t seq, epoch, ts_ns
    cursor source, type_
    Py_ssize_t source_size, type_size


cdef inline bint two(cursor p, int64_t low, int64_t high, int64_t* number) noexcept:
    return digits(p, 2, number) and low <= number[0] <= high


cdef bint rfc3339_ns(cursor p, int64_t size, int64_t* ns) noexcept:
    """Read an RFC 3339 time from 1680 to 2260; return False for anything else."""
    cdef int64_t year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0, fraction = 0
    cdef int64_t east_hour = 0, east_minute = 0, longest, days, era_year
    cdef int64_t at = 19, i
    if size < 20 or not (
        digits(p, 4, &year) and 1680 <= year <= 2260
        and p[4] == c'-' and two(p + 5, 1, 12, &month)
        and p[7] == c'-' and two(p + 8, 1, 31, &day)
        and (p[10] == c'T' or p[10] == c't' or p[10] == c' ') and two(p + 11, 0, 23, &hour)
        and p[13] == c':' and two(p + 14, 0, 59, &minute)
        and p[16] == c':' and two(p + 17, 0, 59, &second)
    ):
        return False
    longest = 30 if month == 4 or month == 6 or month == 9 or month == 11 else 31
    if month == 2:
        longest = 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
    if day > longest:
        return False
    if p[19] == c'.':
        at = 20
        while at < size and at < 29 and c'0' <= p[at] <= c'9':
            fraction = fraction * 10 + (p[at] - c'0')
            at += 1
        if at == 20:
            return False
        for i in range(at, 29):
            fraction *= 10
    if size - at == 1 and (p[at] == c'Z' or p[at] == c'z'):
        pass
    elif size - at == 6 and (p[at] == c'+' or p[at] == c'-') and p[at + 3] == c':':
        if not (two(p + at + 1, 0, 23, &east_hour) and two(p + at + 4, 0, 59, &east_minute)):
            return False
        if p[at] == c'-':
            east_hour, east_minute = -east_hour, -east_minute
    else:
        return False
    # Years begin in March here, so that a leap day is the last day of its year.
    era_year = year - 1 if month <= 2 else year
    month = month + 9 if month <= 2 else month - 3
    days = (
        365 * era_year + era_year // 4 - era_year // 100 + era_year // 400
        + (153 * month + 2) // 5 + day - 1 - DAYS_TO_EPOCH
    )
    minute += 60 * (24 * days + hour - east_hour) - east_minute
    ns[0] = (60 * minute + second) * 1_000_000_000 + fraction
    return True


cdef bint count_of(object given, int64_t* number) except -1:
    """Store a non-negative integer that fits int64; return False for anything else."""
    cdef int overflow = 0
    if type(given) is not int:
        return False
    number[0] = PyLong_AsLongLongAndOverflow(given, &overflow)
    return not overflow and number[0] >= 0


cdef inline uint8_t* put_header(
    uint8_t* p, bytes name, const char* content, Py_ssize_t size, int64_t* whole
):
    p = put_bytes(p, PyBytes_AS_STRING(name), PyBytes_GET_SIZE(name))
    whole[0] += HEADER_FRAMING_BYTES + MAX_CHARACTER_BYTES * (PyBytes_GET_SIZE(name) - 1) + size
    return put_bytes(put_varint(p, size), content, size)


cdef inline uint8_t* put_count(uint8_t* p, bytes name, int64_t number, int64_t* whole):
    cdef uint8_t* begin = put_bytes(p, PyBytes_AS_STRING(name), PyBytes_GET_SIZE(name))
    p = put_number(begin, number)
    whole[0] += (
        HEADER_FRAMING_BYTES + MAX_CHARACTER_BYTES * (PyBytes_GET_SIZE(name) - 1) + (p - begin - 1)
    )
    return p


@cython.final
cdef class EventReader:
    """The compiled `codec.face.EventReader`, described in the module's docstring."""

    cdef object _general
    cdef list _names, _texts
    cdef cursor _name[MAX_FIELDS]
    cdef int64_t _name_size[MAX_FIELDS]
    cdef int _fields
    cdef int _usual[MAX_FIELDS]  # The field of the latest header at each position.
    cdef int64_t _unit_ns, _most_ts, _max_record_bytes, _lanes
    cdef uint32_t _needed
    cdef int32_t _contract, _kept_to
    cdef bint _is_raw, _is_sequenced
    cdef object _by_time, _default
    cdef object _pick, _stream
    cdef bytes _stream_bytes, _sig
    cdef list _spelled
    cdef int _place[KIND]  # The index of each field in the picked values, or -1.
    cdef bint _is_struct, _ts_is_record, _source_is_key
    cdef Py_ssize_t _picked
    cdef Scanner _scanner  # None if values are not JSON, or fields lie deeper.

    def __init__(self, form, general):
        names = form.names
        fields = (
            names.source, names.seq, names.epoch, names.ts, names.stream, names.type, names.kind,
            *STAMPED_NAMES,
        )
        self._names = [name.encode() for name in fields]
        self._fields = len(fields)
        for i in range(self._fields):
            self._name[i] = <cursor>PyBytes_AS_STRING(self._names[i])
            self._name_size[i] = PyBytes_GET_SIZE(self._names[i])
            self._usual[i] = i
        self._texts = [None] * SLOTS
        self._general = general
        self._contract = contract_number(names)
        self._unit_ns = form.unit_ns
        self._most_ts = 0x7FFFFFFFFFFFFFFF // self._unit_ns
        self._max_record_bytes = form.max_record_bytes
        self._lanes = form.upstream_partitions
        self._by_time = form.by_time or None
        self._default = DEFAULT_STREAM
        self._is_raw = form.topic == RAW
        self._is_sequenced = form.topic == SEQUENCED
        self._pick = None
        if form.mapped is not None:
            self._maps(form.mapped, names)
        self._needed = 1 << SOURCE
        if not self._is_raw:
            assert self._is_sequenced or form.topic == ORDERED
            self._needed |= 1 << REF | 1 << ERR | 1 << SEGMENT | 1 << AT
        if self._is_sequenced:
            self._needed |= 1 << ARRIVAL | 1 << LANE

    cdef void _maps(self, object mapped, object names):
        cdef int field
        self._pick, self._is_struct, fields = mapped.pick, mapped.is_struct, mapped.fields
        self._ts_is_record, self._source_is_key = mapped.ts_is_record, mapped.source_is_key
        self._stream = mapped.stream
        self._picked = len(fields)
        self._scanner = Scanner(mapped.keys) if 0 < len(mapped.keys) <= MAX_NAMES else None
        self._stream_bytes = self._stream.encode()
        self._sig = names.sig.encode()
        self._spelled = [bytes([2 * len(name)]) + name for name in self._names[:KIND]]
        order = ("source", "seq", "epoch", "ts", "stream", "type")
        for field in range(KIND):
            self._place[field] = fields.index(order[field]) if order[field] in fields else -1

    def read(self, records, clock, read_at_ns, list events not None, aside):
        cdef list given = records if type(records) is list else list(records)
        cdef Py_ssize_t i, alike = 0, until
        cdef Record record
        arrival = 0
        for i in range(len(given)):
            item = given[i]
            if type(item) is not Record:
                if self._is_raw:
                    arrival = clock.arrive(item.timestamp, item.timestamp_type, read_at_ns)
                if type(item) is Unreadable:
                    aside(item.dead(arrival))
                else:
                    aside(self._general(item, arrival))
                alike = 0
                continue
            record = <Record>item
            if self._is_raw and not alike:
                # If the broker sets timestamps, all records of a batch have the same one.
                until = i + 1
                while until < len(given) and are_stamped_alike(record, given[until]):
                    until += 1
                alike = until - i
                arrival = clock.arrive(record.timestamp, record.timestamp_type, read_at_ns, alike)
            alike -= 1
            if self._pick is None:
                event = self._plain(record, arrival)
            else:
                event = self._mapped(record, arrival)
            if event is None:
                record.kept_to = UNREAD
                aside(self._general(record, arrival))
            else:
                events.append(event)

    cdef object _plain(self, Record record, object arrival):
        """Return the event, or None if the record must take the general path."""
        # A late None needs no cleanup, because `Record.kept_to` is set last.
        cdef Look look
        cdef int64_t seq = -1, epoch = -1, ts_ns = 0, ref_ns = 0, error_ns = 0, segment = 0
        cdef int64_t arrival_ns = 0, at_ns = 0, lane = 0
        cdef uint32_t repeatable = 0
        if not self._look(record, &look) or look.seen & self._needed != self._needed:
            return None
        if look.seen >> KIND & 1:
            return None
        try:
            if look.seen >> STREAM & 1:
                if not 0 < look.size[STREAM] <= max_stream_bytes:
                    return None
                stream = self._text(look.at[STREAM], look.size[STREAM])
            else:
                stream = self._default
            if not 0 < look.size[SOURCE] <= max_source_bytes:
                return None
            source = self._text(look.at[SOURCE], look.size[SOURCE])
            type_ = ""
            if look.seen >> TYPE & 1 and look.size[TYPE] > 0:
                type_ = self._text(look.at[TYPE], look.size[TYPE])
        except UnicodeDecodeError:
            return None
        if self._by_time is not None and stream in self._by_time:
            if record.offset < 0:
                return None
            seq = record.offset
            repeatable = 1 << SEQ
        elif not look.seen >> SEQ & 1 or not digits(look.at[SEQ], look.size[SEQ], &seq):
            return None
        if look.repeated & ~repeatable:
            return None
        if look.seen >> EPOCH & 1 and not digits(look.at[EPOCH], look.size[EPOCH], &epoch):
            return None
        if look.seen >> TS & 1:
            if not self._time_of(look.at[TS], look.size[TS], &ts_ns):
                return None
        elif 0 <= record.timestamp <= max_ms:
            ts_ns = record.timestamp * NS_PER_MS
        else:
            return None
        if self._is_raw:
            event = Event(
                stream, source, epoch, seq, ts_ns, arrival, record.offset, record, record.value,
                type_,
            )
            # REORDER compares contents only of sources that number their events but not epochs.
            if epoch < 0 and not repeatable and record.value:
                event.digest = digest_of(record.value, type_)
        else:
            if not (
                signed_digits(look.at[REF], look.size[REF], &ref_ns)
                and signed_digits(look.at[AT], look.size[AT], &at_ns)
                and digits(look.at[ERR], look.size[ERR], &error_ns)
                and digits(look.at[SEGMENT], look.size[SEGMENT], &segment)
            ):
                return None
            late = ""
            if look.seen >> LATE & 1 and look.size[LATE] > 0:
                late = self._ascii(look.at[LATE], look.size[LATE])
                if late is None:
                    return None
            if self._is_sequenced:
                if not (
                    signed_digits(look.at[ARRIVAL], look.size[ARRIVAL], &arrival_ns)
                    and digits(look.at[LANE], look.size[LANE], &lane)
                    and lane < self._lanes
                ):
                    return None
            else:
                arrival_ns = at_ns
            event = Event(
                stream, source, 0 if epoch < 0 else epoch, seq, ts_ns, arrival_ns, record.offset,
                record, record.value, type_,
            )
            event.ref_time_ns = ref_ns
            event.error_ns = error_ns
            event.segment = segment
            event.late = late
            if self._is_sequenced:
                event.at_ns = at_ns
                event.lane = lane
        event.is_stamped = look.seen >> TS & 1 == 1
        self._note(record, &look, epoch)
        return event

    cdef object _mapped(self, Record record, object arrival):
        """Return the event of a foreign record, or None, as `_plain` does."""
        cdef Said said
        cdef int64_t whole = 0
        cdef uint8_t block[MAPPED_ROOM]
        cdef uint8_t* p = block
        cdef int32_t count = 3
        if record.value is None or record.is_padded or not self._is_foreign(record, &whole):
            return None
        said.seq = said.epoch = -1
        said.type_size = 0
        if self._ts_is_record:
            if not 0 <= record.timestamp <= max_ms:
                return None
            said.ts_ns = record.timestamp * NS_PER_MS
        if self._source_is_key:
            if record.key is None:
                return None
            said.source = <cursor>PyBytes_AS_STRING(record.key)
            said.source_size = PyBytes_GET_SIZE(record.key)
        values = None  # It keeps the texts that were decoded.
        if self._scanner is None or not self._scan(record.value, &said):
            values = self._pick_values(record.value)
            if values is None or not self._take(values, &said):
                return None
        if not 0 < said.source_size <= max_source_bytes or said.type_size > MAX_TYPE_BYTES:
            return None
        try:
            source = self._text(said.source, said.source_size)
            type_ = self._text(said.type_, said.type_size) if said.type_size else ""
        except UnicodeDecodeError:
            return None
        p = put_header(
            p, self._spelled[SOURCE], <const char*>said.source, said.source_size, &whole
        )
        record.seq_from = <int32_t>(p - block)
        p = put_count(p, self._spelled[SEQ], said.seq, &whole)
        record.seq_to = <int32_t>(p - block)
        p = put_count(p, self._spelled[TS], said.ts_ns, &whole)
        if said.type_size:
            p = put_header(
                p, self._spelled[TYPE], <const char*>said.type_, said.type_size, &whole
            )
            count += 1
        if said.epoch >= 0:
            p = put_count(p, self._spelled[EPOCH], said.epoch, &whole)
            count += 1
        if self._stream != self._default:
            p = put_header(
                p,
                self._spelled[STREAM],
                PyBytes_AS_STRING(self._stream_bytes),
                PyBytes_GET_SIZE(self._stream_bytes),
                &whole,
            )
            count += 1
        if whole > self._max_record_bytes or record.count + count > max_headers:
            return None
        record.block = PyBytes_FromStringAndSize(<char*>block, p - block) + record.block
        record.count += count
        record.kept = record.count
        record.kept_to = <int32_t>PyBytes_GET_SIZE(record.block)
        record.contract = self._contract
        record.seq = said.seq
        record.epoch = said.epoch
        event = Event(
            self._stream,
            source,
            said.epoch,
            said.seq,
            said.ts_ns,
            arrival,
            record.offset,
            record,
            record.value,
            type_,
        )
        event.is_stamped = not self._ts_is_record
        if said.epoch < 0 and record.value:
            event.digest = digest_of(record.value, type_)
        return event

    cdef bint _scan(self, bytes value, Said* said) noexcept:
        """Read the fields in place; return False if decoding has to find out what they say."""
        cdef Field found[MAX_NAMES]
        cdef Field* field
        cdef cursor begin = <cursor>PyBytes_AS_STRING(value)
        if not self._scanner.scan(begin, begin + PyBytes_GET_SIZE(value), found):
            return False
        field = &found[self._place[SEQ]]
        if field.kind != INTEGER or field.number < 0:
            return False
        said.seq = field.number
        if self._place[EPOCH] >= 0:
            field = &found[self._place[EPOCH]]
            if field.kind == INTEGER and field.number >= 0:
                said.epoch = field.number
            elif field.kind != ABSENT and field.kind != NULL_:
                return False
        if not self._ts_is_record:
            field = &found[self._place[TS]]
            if field.kind == INTEGER and field.number >= 0:
                if not self._in_ns(field.number, &said.ts_ns):
                    return False
            elif field.kind != TEXT or not self._time_of(field.begin, field.size, &said.ts_ns):
                return False
        if self._place[TYPE] >= 0:
            field = &found[self._place[TYPE]]
            if field.kind == TEXT:
                said.type_, said.type_size = field.begin, field.size
            elif field.kind != ABSENT and field.kind != NULL_:
                return False
        if not self._source_is_key:
            field = &found[self._place[SOURCE]]
            if field.kind != TEXT:
                return False
            said.source, said.source_size = field.begin, field.size
        return True

    cdef object _pick_values(self, bytes value):
        """Return the decoded fields of a value, or None if it cannot be decoded."""
        try:
            values = self._pick(value)
            if self._is_struct:
                values = astuple(values)
        except Exception:
            return None
        return values if len(values) == self._picked else None

    cdef bint _take(self, object values, Said* said) except -1:
        """Store what the decoded fields say; return False if it needs the general path.

        The names point into the texts of `values`.
        """
        cdef Py_ssize_t size = 0
        cdef int64_t number = 0
        cdef const char* text
        if not count_of(values[self._place[SEQ]], &said.seq):
            return False
        if self._place[EPOCH] >= 0:
            given = values[self._place[EPOCH]]
            if given is not None and not count_of(given, &said.epoch):
                return False
        if not self._ts_is_record:
            given = values[self._place[TS]]
            if type(given) is str:
                text = PyUnicode_AsUTF8AndSize(given, &size)
                if not self._time_of(<cursor>text, size, &said.ts_ns):
                    return False
            elif not (count_of(given, &number) and self._in_ns(number, &said.ts_ns)):
                return False
        if self._place[TYPE] >= 0:
            given = values[self._place[TYPE]]
            if type(given) is str:
                said.type_ = <cursor>PyUnicode_AsUTF8AndSize(given, &said.type_size)
            elif given is not None:
                return False
        if not self._source_is_key:
            given = values[self._place[SOURCE]]
            if type(given) is not str:
                return False
            said.source = <cursor>PyUnicode_AsUTF8AndSize(given, &said.source_size)
        return True

    cdef inline bint _in_ns(self, int64_t number, int64_t* ns) noexcept:
        ns[0] = number * self._unit_ns if number <= self._most_ts else 0
        return number <= self._most_ts

    cdef bint _time_of(self, cursor text, int64_t size, int64_t* ns) noexcept:
        """Read a time as digits or as RFC 3339; return False for anything else."""
        cdef int64_t number = 0
        if digits(text, size, &number):
            return self._in_ns(number, ns)
        return rfc3339_ns(text, size, ns)

    cdef bint _is_foreign(self, Record record, int64_t* whole) noexcept:
        """Return whether no header has one of our names, and add the record's size to `whole`."""
        cdef cursor p = <cursor>PyBytes_AS_STRING(record.block)
        cdef cursor end = p + PyBytes_GET_SIZE(record.block)
        cdef int64_t size = 0
        cdef int32_t place
        for place in range(record.count):
            if not take_length(&p, end, &size) or size < 0:
                return False
            if self._field_of(place, p, size) >= 0 or (
                size == PyBytes_GET_SIZE(self._sig)
                and memcmp(p, PyBytes_AS_STRING(self._sig), size) == 0
            ):
                return False
            p += size
            whole[0] += HEADER_FRAMING_BYTES + MAX_CHARACTER_BYTES * size
            if not take_length(&p, end, &size):
                return False
            if size > 0:
                p += size
                whole[0] += size
        whole[0] += PyBytes_GET_SIZE(record.value)
        if record.key is not None:
            whole[0] += PyBytes_GET_SIZE(record.key)
        return True

    cdef bint _look(self, Record record, Look* look) noexcept:
        """Store the positions of the known headers; return False if the record is not plain."""
        # If stamps do not follow all copied headers, the record is plain but cannot be copied.
        cdef cursor begin = <cursor>PyBytes_AS_STRING(record.block)
        cdef cursor end = begin + PyBytes_GET_SIZE(record.block)
        cdef cursor p = begin
        cdef cursor header
        cdef int64_t name_size = 0, size = 0, whole = 0
        cdef int32_t place
        cdef int field
        look.seen = look.repeated = 0
        record.kept_to = UNREAD
        record.contract = self._contract
        record.seq_from = record.seq_to = 0
        record.kept = 0
        cdef bint is_scattered = False
        cdef int32_t kept_to = 0
        for place in range(record.count):
            header = p
            if not take_length(&p, end, &name_size) or name_size < 0:
                return False
            field = self._field_of(place, p, name_size)
            p += name_size
            if not take_length(&p, end, &size):
                return False
            whole += HEADER_FRAMING_BYTES + MAX_CHARACTER_BYTES * name_size
            if field >= 0:
                if look.seen >> field & 1:
                    look.repeated |= <uint32_t>1 << field
                look.seen |= <uint32_t>1 << field
                look.at[field] = p
                look.size[field] = size
            if size > 0:
                p += size
                whole += size
            if field <= KIND:  # It is not a stamp, so it is copied.
                if record.kept != place:
                    is_scattered = True
                record.kept = place + 1
                kept_to = <int32_t>(p - begin)
                if field == SEQ:
                    record.seq_from = <int32_t>(header - begin)
                    record.seq_to = kept_to
        if record.key is not None:
            whole += PyBytes_GET_SIZE(record.key)
        if record.value is not None:
            whole += PyBytes_GET_SIZE(record.value)
        if self._is_raw and (whole > self._max_record_bytes or record.count > max_headers):
            return False
        if is_scattered or record.is_padded or look.repeated >> SEQ & 1:
            kept_to = UNREAD
        record.seq_to = record.seq_to if kept_to >= 0 else 0
        self._kept_to = kept_to
        return True

    cdef void _note(self, Record record, Look* look, int64_t epoch):
        """Store in the record the values that a writer needs to write it again."""
        cdef int64_t seq = -1
        if look.seen >> SEQ & 1 and not digits(look.at[SEQ], look.size[SEQ], &seq):
            seq = -1
        record.seq = seq
        record.epoch = epoch
        record.kept_to = self._kept_to

    cdef inline int _field_of(self, int32_t place, cursor name, int64_t size) noexcept:
        """Return the field with this name, or -1 if there is none."""
        # Records of a topic are similar, so the field at this position of the previous record is
        # tried first.
        cdef int field
        if place < MAX_FIELDS:
            field = self._usual[place]
            if (
                0 <= field < self._fields
                and self._name_size[field] == size
                and memcmp(self._name[field], name, size) == 0
            ):
                return field
        for field in range(self._fields):
            if self._name_size[field] == size and memcmp(self._name[field], name, size) == 0:
                if place < MAX_FIELDS:
                    self._usual[place] = field
                return field
        return -1

    cdef object _text(self, cursor p, int64_t size):
        """Return the bytes as text; raise UnicodeDecodeError if they are not UTF-8."""
        cdef uint32_t hash = 2166136261
        cdef Py_ssize_t known_size
        cdef const char* known
        cdef int64_t i
        if size > MAX_SHARED_BYTES:
            return PyUnicode_DecodeUTF8(<const char*>p, size, NULL)
        for i in range(size):
            hash = (hash ^ p[i]) * 16777619
        i = hash & (SLOTS - 1)
        text = self._texts[i]
        if text is not None:
            known = PyUnicode_AsUTF8AndSize(text, &known_size)
            if known_size == size and memcmp(known, p, size) == 0:
                return text
        text = PyUnicode_DecodeUTF8(<const char*>p, size, NULL)
        self._texts[i] = text
        return text

    cdef object _ascii(self, cursor p, int64_t size):
        cdef int64_t i
        for i in range(size):
            if p[i] >= 0x80:
                return None
        return self._text(p, size)


cdef inline uint32_t digest_of(bytes value, object type_) except? 0:
    """Return the digest of topology.order.reorder.recent; the value is not empty."""
    cdef Py_ssize_t size = 0
    cdef const char* text = PyUnicode_AsUTF8AndSize(type_, &size)
    cdef uint32_t digest = crc32_on(0, <cursor>text, size)
    return crc32_on(digest, <cursor>PyBytes_AS_STRING(value), PyBytes_GET_SIZE(value))


cdef inline bint are_stamped_alike(Record record, object other):
    return (
        type(other) is Record
        and (<Record>other).timestamp == record.timestamp
        and (<Record>other).timestamp_type == record.timestamp_type
    )
