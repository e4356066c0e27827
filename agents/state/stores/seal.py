"""Whether a copy is what was written: how many entries it has, and a digest of them.

A store may lose entries, or hold old ones, without an error: a file that ends early, a field
that a server evicted, a block that a checksum does not cover. So beside the entries lies a
seal, written with every change: the position, the number of entries, the sum of their
digests (BLAKE2b, 64 bits, modulo 2^64), the id of the log they were taken from, and when. What is
read back is counted and summed again, in whatever order it comes.

A change takes the old value's digest out of the sum, so those of all entries are in memory:
162 bytes for each key. Reading the old value from the store instead takes as long as writing
the new one (2.6 against 3 us; a digest takes 1 to 2.5). Memory of the state itself is ten
times as much.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import Final

import msgspec

SEAL: Final = b"\nseal"
"""The key of the seal among the entries; no key of a state begins so."""

_DIGEST_BYTES: Final = 8
_MODULUS: Final = 1 << (8 * _DIGEST_BYTES)


class Seal(msgspec.Struct, array_like=True, frozen=True):
    """What a copy says of itself. `log_id` is "" where the brokers distinguish topics by name
    alone. `written_at_ns`: when, by the writer's wall clock, the copy was last known to be right.
    """

    position: int
    entries: int
    digest: int
    log_id: str
    written_at_ns: int


class StateTally:
    """The entries of one copy, or of one state, counted and digested, and kept up with its changes:
    two that are equal are of the same entries. 1.1 us for each change."""

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
