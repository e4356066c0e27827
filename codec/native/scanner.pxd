# cython: language_level=3
from libc.stdint cimport int64_t

from codec.native.wire cimport cursor

cdef enum:
    MAX_NAMES = 16

# What a field has. A text has `size` bytes from `begin` on, a real number too.
cdef enum Kind:
    ABSENT, NULL_, TRUE, FALSE, INTEGER, REAL, TEXT

cdef struct Field:
    Kind kind
    cursor begin
    int64_t size
    int64_t number


cdef class Scanner:
    cdef tuple _names
    cdef list _encoded
    cdef cursor _name[MAX_NAMES]
    cdef int64_t _name_size[MAX_NAMES]
    cdef int _count
    cdef bint scan(self, cursor begin, cursor end, Field* found) noexcept
