# cython: language_level=3
from libc.stdint cimport int32_t, int64_t

cdef enum:
    UNREAD = -1  # The value of `Record.kept_to` until a reader finds the record plain.


cdef class Record:
    cdef readonly int64_t offset
    cdef readonly int64_t timestamp
    cdef readonly bytes key
    cdef readonly bytes value
    cdef bytes block
    cdef int64_t seq
    cdef int64_t epoch
    cdef int32_t count
    cdef int32_t kept
    cdef int32_t kept_to
    cdef int32_t seq_from
    cdef int32_t seq_to
    cdef int32_t contract
    cdef bint is_padded
    cdef readonly int timestamp_type
