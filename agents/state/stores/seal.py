"""Checks that a copy has exactly the entries that were written, by their number and digest.

A store may lose entries, or return old ones, without an error. Examples are a file that ends early,
a field that a server evicted, and a block that a checksum does not cover. So a seal is written with
every change. It has the position, the time, the id of the log, the number of entries, and the sum
of their digests. A digest is BLAKE2b with 64 bits, and the sum is modulo 2^64. Entries that are
read back are counted and summed again, in any order.

A change subtracts the old value's digest from the sum. So the digests of all entries are in memory,
162 bytes for each key; the state itself takes ten times as much. Reading the old value from the
store instead would take about as long as writing the new one (2.6 against 3 us). A digest takes 1
to 2.5 us.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import Final

import msgspec

SEAL: Final = b"\nseal"
"""The key of the seal among the entries; no key of a state begins with it."""

_DIGEST_BYTES: Final = 8
_MODULUS: Final = 1 << (8 * _DIGEST_BYTES)


class Seal(msgspec.Struct, array_like=True, frozen=True):
    """A copy's record of its own content, by which the copy is checked when it is loaded.

    `log_id` is "" if the brokers distinguish topics by name alone. `written_at_ns` is the writer's
    wall-clock time of the last change, when the copy was right.
    """

    position: int
    entries: int
    digest: int
    log_id: str
    written_at_ns: int


class StateTally:
    """The number and digest of the entries of a copy or state, updated with each change.

    Equal tallies mean equal entries, except for a collision of digests. Cost: 1.1 us for each
    change.
    """

    def __init__(self) -> None:
        self._digests: dict[bytes, int] = {}
        self.digest = 0

    def change(self, changes: Mapping[bytes, bytes | None]) -> None:
        digests, total = self._digests, self.digest
        for key, value in changes.items():
            if value is None:
                total -= digests.pop(key, 0)
            else:
                digest = _digest(key, value)
                total += digest - digests.get(key, 0)
                digests[key] = digest
        self.digest = total % _MODULUS

    @property
    def entries(self) -> int:
        return len(self._digests)


def _digest(key: bytes, value: bytes) -> int:
    return int.from_bytes(blake2b(key + b"\0" + value, digest_size=_DIGEST_BYTES).digest())
