"""A source's name borne out: the header `sig`, over all that decides what becomes of an event.

What is signed is what the contract reads of a record, as it is on the wire: the word
`inorder-1`; how many bytes each of stream, source, epoch, number, time, type, kind and the record's
value have, as eight integers of four bytes, the highest byte first, -1 for one that is not there;
then their bytes, in this order, nothing between. A record of `press-7` with number 17, in hex:

    696e6f726465722d31ffffffff000000070000000a0000000200000013ffffffffffffffff0000000f
    70726573732d3731373030303030303030313731373030303030303030303030303030303030
    7b22666f726365223a2031322e357d

So nothing of one event can be moved to another, nor from one field to the next. A header whose
value is null counts as one that is not there. The key of the record, its partition, the broker's
stamp and headers that the contract does not know are not signed.

The signature is the first 16 bytes of the HMAC-SHA-256 of these bytes, in hex, behind its name:

    sig: hmac-sha256-128:TAG        by the source's own key
    sig: hmac-sha256-128:6:TAG      by the key of a prefix that is 6 bytes long

A key is made of a *master key* and a name, so that whoever checks needs no list of sources:
HMAC-SHA-256(master, "source " + name), or "prefix " + prefix for all sources whose names begin with
it. Who has such a key can make neither the master nor another source's.

Python alone is imported here, and nothing is read: `inorder.signing_keys` has what publishers hold,
`topology.wire.signed` the check.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from hmac import digest
from struct import Struct
from typing import Final, Literal

from inorder.contract import HeaderNames

ALGORITHM: Final = b"hmac-sha256-128:"
TAG_BYTES: Final = 16
SOURCE: Final = "source"
PREFIX: Final = "prefix"
_BLOCK_BYTES: Final = 64
_INNER: Final = bytes(byte ^ 0x36 for byte in range(256))
_OUTER: Final = bytes(byte ^ 0x5C for byte in range(256))
_BEGINS: Final = Struct(">9s8i")
_WORD: Final = b"inorder-1"
_ABSENT: Final = -1

Scope = Literal["source", "prefix"]
Found = Mapping[str, bytes | None]


class Mac:
    """HMAC-SHA-256 by one key, both of its hashes begun once: half the time of `hmac`'s own."""

    __slots__ = ("_inner", "_outer")

    def __init__(self, key: bytes) -> None:
        block = (sha256(key).digest() if len(key) > _BLOCK_BYTES else key).ljust(
            _BLOCK_BYTES, b"\0"
        )
        self._inner = sha256(block.translate(_INNER))
        self._outer = sha256(block.translate(_OUTER))

    def tag(self, content: bytes) -> bytes:
        """16 bytes."""
        inner = self._inner.copy()
        inner.update(content)
        outer = self._outer.copy()
        outer.update(inner.digest())
        return outer.digest()[:TAG_BYTES]


def signed_names(names: HeaderNames) -> tuple[str, ...]:
    """The headers that are signed, in their order."""
    return (names.stream, names.source, names.epoch, names.seq, names.ts, names.type, names.kind)


def signed_content(order: tuple[str, ...], found: Found, value: bytes | None) -> bytes:
    """What is signed of a record with these headers and this value; `order` is `signed_names`."""
    fields = [*map(found.get, order), value]
    sizes = [_ABSENT if field is None else len(field) for field in fields]
    return _BEGINS.pack(_WORD, *sizes) + b"".join(filter(None, fields))


def derived(master: bytes, scope: Scope, name: bytes) -> bytes:
    """The key of a source, or of all sources whose names begin so; 32 bytes."""
    return digest(master, scope.encode() + b" " + name, "sha256")
