"""Free TCP ports on the loopback address for servers that must keep them.

The ports lie below the range from which the kernel takes the near ends of
outgoing connections: a server that is down for a moment and comes back on the
same port would otherwise find it taken, sometimes by its own client talking to
itself.
"""

from __future__ import annotations

import random
import socket

LOOPBACK = "127.0.0.1"
FIRST = 12_000
LAST = 31_999
MAX_TRIES = 200


def free_ports(count: int) -> list[int]:
    """`count` different ports that nobody listens on at this moment."""
    found: list[int] = []
    for _ in range(MAX_TRIES):
        if len(found) == count:
            return found
        port = random.randint(FIRST, LAST)
        if port not in found and is_free(port):
            found.append(port)
    raise OSError(f"no {count} free ports between {FIRST} and {LAST} after {MAX_TRIES} tries")


def is_free(port: int) -> bool:
    """Nobody listens there. Connections of a server that has gone, which linger for a minute, are
    in no server's way."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True
