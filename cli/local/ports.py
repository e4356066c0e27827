"""Free TCP ports on the loopback address for servers that must keep them.

The ports lie below the range from which the kernel takes the near ends of
outgoing connections: a server that is down for a moment and comes back on the
same port would otherwise find it taken, sometimes by its own client talking to
itself.
"""

from __future__ import annotations

import random
import socket
from itertools import islice

LOOPBACK = "127.0.0.1"
FIRST = 12_000
LAST = 31_999
MAX_TRIES = 200


def free_ports(count: int) -> list[int]:
    """`count` different ports that nobody listens on at this moment."""
    tried = random.sample(range(FIRST, LAST + 1), MAX_TRIES)
    found = list(islice(filter(is_free, tried), count))
    if len(found) < count:
        raise OSError(f"no {count} free ports between {FIRST} and {LAST} after {MAX_TRIES} tries")
    return found


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
