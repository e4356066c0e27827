# cython: language_level=3
"""Reads and writes numbers on the wire: Kafka's zigzag varints, and decimal digits in headers.

No function reads at or beyond `end`, or writes more bytes than its docstring says.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

ctypedef const uint8_t* cursor

cdef enum:
    MOST_VARINT_BITS = 63  # The shift of a varint's tenth and last possible byte.
    MOST_DIGITS = 19
    MOST_NUMBER = 20  # The largest number of bytes of an int64 as digits with a sign.


cdef inline bint take_varint(cursor* at, cursor end, int64_t* value) noexcept nogil:
    """Read a varint and move `at` after it; return False if it exceeds `end` or ten bytes."""
    cdef cursor p = at[0]
    cdef uint64_t bits = 0
    cdef int shift = 0
    cdef uint8_t byte
    while p < end and shift <= MOST_VARINT_BITS:
        byte = p[0]
        p += 1
        bits |= <uint64_t>(byte & 0x7F) << shift
        if byte < 0x80:
            at[0] = p
            value[0] = <int64_t>((bits >> 1) ^ (~(bits & 1) + 1))
            return True
        shift += 7
    return False


cdef inline bint take_length(cursor* at, cursor end, int64_t* length) noexcept nogil:
    """Read a length that fits before `end`, or -1 for null; return False for other lengths."""
    return take_varint(at, end, length) and -1 <= length[0] <= end - at[0]


cdef inline bint digits(cursor p, int64_t size, int64_t* number) noexcept nogil:
    """Read 1 to 19 ASCII digits that fit int64; return False for anything else."""
    cdef uint64_t value = 0
    cdef int64_t i
    if size < 1 or size > MOST_DIGITS:
        return False
    for i in range(size):
        if p[i] < c'0' or p[i] > c'9':
            return False
        value = value * 10 + (p[i] - c'0')
    number[0] = <int64_t>value
    return value <= 0x7FFFFFFFFFFFFFFFULL


cdef inline bint signed_digits(cursor p, int64_t size, int64_t* number) noexcept nogil:
    """Read digits, with or without a minus; return False for others and for -2^63."""
    if size > 0 and p[0] == c'-':
        if not digits(p + 1, size - 1, number):
            return False
        number[0] = -number[0]
        return True
    return digits(p, size, number)


cdef inline uint64_t zigzag(int64_t value) noexcept nogil:
    return (<uint64_t>value << 1) ^ <uint64_t>(value >> 63)


cdef inline int size_of_varint(int64_t value) noexcept nogil:
    cdef uint64_t bits = zigzag(value)
    cdef int size = 1
    while bits >= 0x80:
        bits >>= 7
        size += 1
    return size


cdef inline uint8_t* put_varint(uint8_t* p, int64_t value) noexcept nogil:
    cdef uint64_t bits = zigzag(value)
    while bits >= 0x80:
        p[0] = <uint8_t>(bits | 0x80)
        p += 1
        bits >>= 7
    p[0] = <uint8_t>bits
    return p + 1


cdef inline uint8_t* put_bytes(uint8_t* p, const void* content, Py_ssize_t size) noexcept nogil:
    memcpy(p, content, size)
    return p + size


cdef inline uint8_t* put_number(uint8_t* p, int64_t number) noexcept nogil:
    """Write a number as a header's value: its length, then at most `MOST_NUMBER` digits."""
    cdef uint8_t text[MOST_NUMBER]
    cdef int i = MOST_NUMBER
    cdef uint64_t left = ~<uint64_t>number + 1 if number < 0 else <uint64_t>number
    while True:
        i -= 1
        text[i] = <uint8_t>(c'0' + left % 10)
        left //= 10
        if not left:
            break
    if number < 0:
        i -= 1
        text[i] = c'-'
    p = put_varint(p, MOST_NUMBER - i)
    return put_bytes(p, &text[i], MOST_NUMBER - i)
