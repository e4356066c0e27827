"""Read when the kernel received a datagram, by the wall clock (SO_TIMESTAMPNS, Linux).

A timestamp that a program takes itself is late by the time that the program waited for the
processor. The kernel's timestamp is not. If the system has none, the caller reads its own clock.
"""

from __future__ import annotations

import platform
import socket
import struct
import sys
from typing import Final

_SAME_NUMBER_ON: Final = frozenset({"x86_64", "aarch64", "riscv64", "ppc64le", "s390x"})
SO_TIMESTAMPNS: Final = 35
"""The value in `asm-generic/socket.h` for systems where a timespec is two 64-bit numbers."""

_TIMESPEC: Final = struct.Struct("@qq")
ANCILLARY_SIZE: Final = 64
NS_PER_S: Final = 1_000_000_000

Ancillary = list[tuple[int, int, bytes]]


def enable(endpoint: socket.socket) -> bool:
    """Request the kernel's timestamps for a socket; return False if there will be none."""
    if sys.platform != "linux" or platform.machine() not in _SAME_NUMBER_ON:
        return False
    try:
        endpoint.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    except OSError:
        return False
    return True


def received_ns(ancillary: Ancillary) -> int | None:
    """Return the kernel's timestamp of a datagram in ns, or None if the datagram has none."""
    for level, kind, content in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, SO_TIMESTAMPNS) and len(content) == _TIMESPEC.size:
            seconds, ns = _TIMESPEC.unpack(content)
            return int(seconds * NS_PER_S + ns)
    return None
