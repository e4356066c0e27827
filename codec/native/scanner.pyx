# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Reads some fields of a plain JSON object, and checks the rest of it without decoding it.

An object is *plain* if every JSON reader agrees about it:

* It nests at most `MAX_NESTING` values, and nothing follows it but blanks.
* Its texts are UTF-8, without `\\u`. Names on the first level have no escapes.
* Its integers have at most `MAX_DIGITS` digits, and none of them is -0.
* Its real numbers have at most `MAX_DIGITS` digits before the exponent, and two in it.
* A field that is read is no object, no list and no text with escapes.

The last of equal names counts. Any other value is refused, and the general path
(`topology.base.payload`, `codec.values.json`) reads it: this module only saves time.

Cost: one pass over the bytes, without an object for the parts that are skipped.

Proved by: tests/codec/test_scanner.py
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcmp, memcpy

from codec.native.wire cimport cursor

cdef extern from "Python.h":
    double PyOS_string_to_double(const char* text, char** end, object overflow) except? -1.0

cdef enum:
    MAX_DIGITS = 17
    MAX_EXPONENT_DIGITS = 2
    MAX_NESTING = 32
    MAX_REAL_BYTES = 32  # A sign, the digits, a point, and an exponent with its sign fit.

cdef extern from *:
    """
    #define EACH_BYTE(byte) (0x0101010101010101ULL * (byte))
    #if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    #define FIRST_BYTE(bits) (__builtin_clzll(bits) >> 3)
    #else
    #define FIRST_BYTE(bits) (__builtin_ctzll(bits) >> 3)
    #endif
    """
    uint64_t EACH_BYTE(int byte) nogil
    int FIRST_BYTE(uint64_t bits) nogil


cdef inline cursor blanks(cursor p, cursor end) noexcept nogil:
    while p < end and (p[0] == c' ' or p[0] == c'\n' or p[0] == c'\t' or p[0] == c'\r'):
        p += 1
    return p


cdef inline bint is_digit(cursor p, cursor end) noexcept nogil:
    return p < end and c'0' <= p[0] <= c'9'


cdef inline bint is_tail(cursor p, cursor end, uint8_t low, uint8_t high) noexcept nogil:
    return p < end and low <= p[0] <= high


cdef int size_in_utf8(cursor p, cursor end) noexcept nogil:
    """Return the number of bytes of a character above ASCII, or 0 if it is not UTF-8."""
    cdef uint8_t first = p[0]
    cdef uint8_t low = 0x80, high = 0xBF
    cdef int size = 2, i
    if first < 0xC2 or first > 0xF4:
        return 0
    if first >= 0xE0:
        size = 3
        if first == 0xE0:
            low = 0xA0  # The shortest form is required,
        elif first == 0xED:
            high = 0x9F  # and half of a surrogate pair is no character.
    if first >= 0xF0:
        size = 4
        if first == 0xF0:
            low = 0x90
        elif first == 0xF4:
            high = 0x8F
    if not is_tail(p + 1, end, low, high):
        return 0
    for i in range(2, size):
        if not is_tail(p + i, end, 0x80, 0xBF):
            return 0
    return size


cdef cursor end_of_text(cursor p, cursor end, bint* has_escapes) noexcept nogil:
    """Return the closing quote of the text that begins at `p`, or NULL if it is not plain."""
    cdef uint64_t word, quoted, escaped, special
    cdef int size
    while True:
        # Eight bytes at a time, up to the first that does not simply mean itself.
        while end - p >= 8:
            memcpy(&word, p, 8)
            quoted = word ^ EACH_BYTE(c'"')
            escaped = word ^ EACH_BYTE(c'\\')
            special = (
                word
                | (word - EACH_BYTE(0x20))
                | (quoted - EACH_BYTE(1))
                | (escaped - EACH_BYTE(1))
            ) & EACH_BYTE(0x80)
            if special:
                p += FIRST_BYTE(special)
                break
            p += 8
        if p >= end:
            return NULL
        if p[0] == c'"':
            return p
        if p[0] == c'\\':
            has_escapes[0] = True
            p += 1
            if p >= end or p[0] not in b'"\\/bfnrt':
                return NULL
            p += 1
        elif p[0] < 0x20:
            return NULL
        elif p[0] < 0x80:
            p += 1
        else:
            size = size_in_utf8(p, end)
            if size == 0:
                return NULL
            p += size


cdef cursor end_of_number(cursor p, cursor end, Field* found) noexcept nogil:
    """Return the end of the number that begins at `p`, or NULL if it is not plain."""
    cdef int64_t number = 0
    cdef int count = 0
    cdef bint is_negative = p[0] == c'-'
    found.begin = p
    found.kind = INTEGER
    if is_negative:
        p += 1
    if not is_digit(p, end):
        return NULL
    if p[0] == c'0' and (is_negative or is_digit(p + 1, end)):
        # Readers differ about -0. The sign of -0.5 is left to the general path, too.
        return NULL
    while is_digit(p, end):
        number = number * 10 + (p[0] - c'0')
        count += 1
        if count > MAX_DIGITS:
            return NULL
        p += 1
    if p < end and p[0] == c'.':
        found.kind = REAL
        p += 1
        if not is_digit(p, end):
            return NULL
        while is_digit(p, end):
            count += 1
            if count > MAX_DIGITS:
                return NULL
            p += 1
    if p < end and (p[0] == c'e' or p[0] == c'E'):
        found.kind = REAL
        p += 1
        if p < end and (p[0] == c'+' or p[0] == c'-'):
            p += 1
        if not is_digit(p, end):
            return NULL
        count = 0
        while is_digit(p, end):
            count += 1
            if count > MAX_EXPONENT_DIGITS:
                return NULL
            p += 1
    found.number = -number if is_negative else number
    found.size = p - found.begin
    return p


cdef inline cursor end_of_word(
    cursor p, cursor end, const char* word, int64_t size
) noexcept nogil:
    return p + size if end - p >= size and memcmp(p, word, size) == 0 else NULL


cdef cursor end_of_scalar(cursor p, cursor end, Field* found, bint* has_escapes) noexcept nogil:
    """Return the end of the scalar at `p`, or NULL if there is none that is plain."""
    cdef cursor after
    if p >= end:
        return NULL
    if p[0] == c'"':
        after = end_of_text(p + 1, end, has_escapes)
        if after == NULL:
            return NULL
        found.kind = TEXT
        found.begin = p + 1
        found.size = after - found.begin
        return after + 1
    if p[0] == c't':
        found.kind = TRUE
        return end_of_word(p, end, "true", 4)
    if p[0] == c'f':
        found.kind = FALSE
        return end_of_word(p, end, "false", 5)
    if p[0] == c'n':
        found.kind = NULL_
        return end_of_word(p, end, "null", 4)
    return end_of_number(p, end, found)


cdef cursor end_of_value(cursor p, cursor end, int room) noexcept nogil:
    """Return the end of any value at `p`, or NULL if it is not plain or needs more `room`."""
    cdef Field ignored
    cdef bint has_escapes = False
    cdef uint8_t closing
    if p >= end:
        return NULL
    if p[0] != c'{' and p[0] != c'[':
        return end_of_scalar(p, end, &ignored, &has_escapes)
    if room == 0:
        return NULL
    closing = c'}' if p[0] == c'{' else c']'
    p = blanks(p + 1, end)
    if p < end and p[0] == closing:
        return p + 1
    while True:
        if closing == c'}':
            if p >= end or p[0] != c'"':
                return NULL
            p = end_of_text(p + 1, end, &has_escapes)
            if p == NULL:
                return NULL
            p = blanks(p + 1, end)
            if p >= end or p[0] != c':':
                return NULL
            p = blanks(p + 1, end)
        p = end_of_value(p, end, room - 1)
        if p == NULL:
            return NULL
        p = blanks(p, end)
        if p >= end:
            return NULL
        if p[0] == closing:
            return p + 1
        if p[0] != c',':
            return NULL
        p = blanks(p + 1, end)


def make_scan(names):
    """Return `Scanner.read` for these names, as a `topology.base.payload.Scan`."""
    return Scanner(names).read


@cython.final
cdef class Scanner:
    """A reader of the fields `names`, at most `MAX_NAMES`, on the first level of an object.

    `read` returns a dict of those fields that the object of a value has, or None if the value is
    not a plain object.
    """

    def __init__(self, names):
        self._names = tuple(names)
        if len(self._names) > MAX_NAMES:
            raise ValueError(f"{len(self._names)} names, and {MAX_NAMES} are allowed")
        # Half of a surrogate pair is no character, so a name with one is in no plain object.
        self._encoded = [name.encode(errors="surrogatepass") for name in self._names]
        self._count = len(self._names)
        for i in range(self._count):
            self._name[i] = <cursor>PyBytes_AS_STRING(self._encoded[i])
            self._name_size[i] = PyBytes_GET_SIZE(self._encoded[i])

    def read(self, bytes value not None):
        cdef Field found[MAX_NAMES]
        cdef cursor begin = <cursor>PyBytes_AS_STRING(value)
        cdef int i
        if not self.scan(begin, begin + PyBytes_GET_SIZE(value), found):
            return None
        fields = {}
        for i in range(self._count):
            if found[i].kind != ABSENT:
                fields[self._names[i]] = object_of(&found[i])
        return fields

    cdef bint scan(self, cursor begin, cursor end, Field* found) noexcept:
        """Store the fields in the order of the names; return False if the object is not plain."""
        cdef cursor p = blanks(begin, end)
        cdef cursor name
        cdef int64_t size
        cdef int i
        cdef bint has_escapes
        for i in range(self._count):
            found[i].kind = ABSENT
        if p >= end or p[0] != c'{':
            return False
        p = blanks(p + 1, end)
        if p < end and p[0] == c'}':
            return blanks(p + 1, end) == end
        while True:
            if p >= end or p[0] != c'"':
                return False
            name = p + 1
            has_escapes = False
            p = end_of_text(name, end, &has_escapes)
            if p == NULL or has_escapes:
                return False
            size = p - name
            p = blanks(p + 1, end)
            if p >= end or p[0] != c':':
                return False
            p = blanks(p + 1, end)
            for i in range(self._count):
                if self._name_size[i] == size and memcmp(self._name[i], name, size) == 0:
                    p = end_of_scalar(p, end, &found[i], &has_escapes)
                    break
            else:
                p = end_of_value(p, end, MAX_NESTING - 1)
            if p == NULL or has_escapes:
                return False
            p = blanks(p, end)
            if p >= end:
                return False
            if p[0] == c'}':
                return blanks(p + 1, end) == end
            if p[0] != c',':
                return False
            p = blanks(p + 1, end)


cdef object object_of(Field* field):
    cdef char text[MAX_REAL_BYTES]
    if field.kind == TEXT:
        return PyUnicode_DecodeUTF8(<const char*>field.begin, field.size, NULL)
    if field.kind == INTEGER:
        return field.number
    if field.kind == REAL:
        memcpy(text, field.begin, field.size)
        text[field.size] = 0
        return PyOS_string_to_double(text, NULL, OverflowError)
    return None if field.kind == NULL_ else field.kind == TRUE
