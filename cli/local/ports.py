"""Finds free TCP ports on the loopback address for servers that must keep them.

The ports are below the range that the kernel uses for outgoing connections. Otherwise a server that
restarts could find its port taken, even by its own client connected to itself.
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
    """Return `count` different ports on which nobody listens at this moment."""
    tried = random.sample(range(FIRST, LAST + 1), MAX_TRIES)
    found = list(islice(filter(is_free, tried), count))
    if len(found) < count:
        raise OSError(f"no {count} free ports between {FIRST} and {LAST} after {MAX_TRIES} tries")
    return found


def is_free(port: int) -> bool:
    """Return whether nobody listens on the port.

    Old connections of a stopped server, which remain for a minute, do not make its port taken.
    """
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True
