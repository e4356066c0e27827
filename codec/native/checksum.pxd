# cython: language_level=3
"""Computes CRC-32C, in hardware if the processor has an instruction for it."""

from cpython.bytes cimport PyBytes_AS_STRING
from libc.stdint cimport uint8_t, uint32_t

cdef extern from *:
    """
    #include <stdint.h>
    #include <stddef.h>
    #include <string.h>
    #if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
    static int has_crc32c(void) {
        __builtin_cpu_init();
        return __builtin_cpu_supports("sse4.2") != 0;
    }
    __attribute__((target("sse4.2")))
    static uint32_t quick_crc32c(const uint8_t *p, size_t n) {
        uint64_t crc = 0xFFFFFFFFu;
        for (; n >= 8; p += 8, n -= 8) {
            uint64_t word;
            memcpy(&word, p, 8);
            crc = __builtin_ia32_crc32di(crc, word);
        }
        for (; n; p++, n--)
            crc = __builtin_ia32_crc32qi((uint32_t)crc, *p);
        return (uint32_t)crc ^ 0xFFFFFFFFu;
    }
    #elif defined(__ARM_FEATURE_CRC32)
    #include <arm_acle.h>
    static int has_crc32c(void) { return 1; }
    static uint32_t quick_crc32c(const uint8_t *p, size_t n) {
        uint32_t crc = 0xFFFFFFFFu;
        for (; n >= 8; p += 8, n -= 8) {
            uint64_t word;
            memcpy(&word, p, 8);
            crc = __crc32cd(crc, word);
        }
        for (; n; p++, n--)
            crc = __crc32cb(crc, *p);
        return crc ^ 0xFFFFFFFFu;
    }
    #else
    static int has_crc32c(void) { return 0; }
    static uint32_t quick_crc32c(const uint8_t *p, size_t n) { (void)p; (void)n; return 0; }
    #endif
    """
    bint has_crc32c() nogil
    uint32_t quick_crc32c(const uint8_t* p, size_t n) nogil


cdef inline uint32_t crc32c(bytes log, Py_ssize_t begin, Py_ssize_t end) except? 0:
    """Return the checksum of log[begin:end]; the caller ensures that the bounds are valid."""
    if has_crc32c():
        return quick_crc32c(<const uint8_t*>PyBytes_AS_STRING(log) + begin, end - begin)
    from aiokafka.record.util import calc_crc32c

    return calc_crc32c(log[begin:end])
