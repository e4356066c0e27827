"""Limits the packets per second from one address.

Every address has a bucket of `burst` tokens that is refilled at `rate` a second. A packet takes a
token, or is dropped if there is none. An address is an IPv4 address or the /64 of an IPv6 address.
Ports are not distinguished, because the owner of an address has all of its ports.

Bound: `max_addresses` buckets. Beyond that, the address that was quiet for longest is forgotten,
and begins with a full bucket when it returns. After `burst / rate` seconds of quiet, its bucket
would be full anyway. A flood from more than `max_addresses` forged addresses passes the limiter. If
the server has keys, the forged packets then fail the signature check. Cost: O(1) a packet.
"""

from __future__ import annotations

import socket
from collections import OrderedDict
from typing import Final

IPV6_PREFIX_BYTES: Final = 8


class AddressLimiter:
    """A limiter with one token bucket per address; `now_s` is the time of a monotonic clock."""

    def __init__(self, rate_per_s: float, burst: int, max_addresses: int) -> None:
        if not (rate_per_s > 0 and burst >= 1 and max_addresses >= 1):
            raise ValueError("rate, burst and max_addresses must all be above 0")
        self._rate_per_s = rate_per_s
        self._burst = float(burst)
        self._max_addresses = max_addresses
        # The address that was quiet for longest comes first.
        self._buckets: OrderedDict[str | bytes, tuple[float, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._buckets)

    def take_token(self, host: str, now_s: float) -> bool:
        """Take a token for one packet, and return whether there was one."""
        address = _prefix(host) if ":" in host else host
        bucket = self._buckets.get(address)
        if bucket is None:
            tokens = self._burst
            if len(self._buckets) >= self._max_addresses:
                self._buckets.popitem(last=False)
        else:
            self._buckets.move_to_end(address)
            tokens, last_s = bucket
            tokens = min(self._burst, tokens + (now_s - last_s) * self._rate_per_s)
        is_admitted = tokens >= 1.0
        self._buckets[address] = (tokens - 1.0 if is_admitted else tokens, now_s)
        return is_admitted


def _prefix(host: str) -> str | bytes:
    try:
        packed = socket.inet_pton(socket.AF_INET6, host.partition("%")[0])
    except OSError:
        return host
    is_mapped = packed[:12] == b"\0" * 10 + b"\xff\xff"
    return packed[12:] if is_mapped else packed[:IPV6_PREFIX_BYTES]
