"""Sign events, so that the header `sig` authenticates all fields that the engine reads.

The signed content has every field that the contract reads from a record, in its encoded form. It
begins with the word `inorder-1`. Then follow the lengths in bytes of stream, source, epoch, number,
time, type, kind and the record's value. They are eight integers of four bytes, the highest byte
first; -1 means that the field is absent. Last come the bytes of the fields, in this order, with
nothing between them. A record of `press-7` with number 17, in hex:

    696e6f726465722d31ffffffff000000070000000a0000000200000013ffffffffffffffff0000000f
    70726573732d3731373030303030303030313731373030303030303030303030303030303030
    7b22666f726365223a2031322e357d

So nobody can move a part of one event to another event, or from one field to the next. A header
whose value is null counts as absent. The signature does not cover the record's key, its partition,
the broker's timestamp, and headers that are not part of the contract.

The signature is the first 16 bytes of the HMAC-SHA-256 of these bytes, in hex, after the name of
the method:

    sig: hmac-sha256-128:TAG        by the source's own key
    sig: hmac-sha256-128:6:TAG      by the key of a prefix that is 6 bytes long

A key is derived from a *master key* and a name, so a checker needs no list of sources. It is
HMAC-SHA-256(master, "source " + name), or "prefix " + prefix for all sources whose names begin with
the prefix. Such a key does not reveal the master key or another source's key.

This module imports only the standard library and reads no file. `inorder.signing_keys` reads the
keys of publishers, and `topology.records.signed` checks signatures.
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
    """A function that computes HMAC-SHA-256 with one key.

    Both hashes are prepared once, so a tag takes half the time that `hmac` takes.
    """

    __slots__ = ("_inner", "_outer")

    def __init__(self, key: bytes) -> None:
        """Prepare both hashes with the key."""
        block = (sha256(key).digest() if len(key) > _BLOCK_BYTES else key).ljust(
            _BLOCK_BYTES, b"\0"
        )
        self._inner = sha256(block.translate(_INNER))
        self._outer = sha256(block.translate(_OUTER))

    def tag(self, content: bytes) -> bytes:
        """Return the first 16 bytes of the HMAC of `content`."""
        inner = self._inner.copy()
        inner.update(content)
        outer = self._outer.copy()
        outer.update(inner.digest())
        return outer.digest()[:TAG_BYTES]


def signed_names(names: HeaderNames) -> tuple[str, ...]:
    """Return the names of the signed headers, in the order in which they are signed."""
    return (names.stream, names.source, names.epoch, names.seq, names.ts, names.type, names.kind)


def signed_content(order: tuple[str, ...], found: Found, value: bytes | None) -> bytes:
    """Return the bytes that are signed.

    Args:
        order: The names of the signed headers (`signed_names`).
        found: The headers of the record.
        value: The record's value.
    """
    fields = [*map(found.get, order), value]
    sizes = [_ABSENT if field is None else len(field) for field in fields]
    return _BEGINS.pack(_WORD, *sizes) + b"".join(filter(None, fields))


def derive(master: bytes, scope: Scope, name: bytes) -> bytes:
    """Return the key of a source, or of a prefix of sources' names, as 32 bytes.

    Args:
        master: The master key.
        scope: Whether `name` is a source or a prefix.
        name: The name or prefix, in UTF-8.
    """
    return digest(master, scope.encode() + b" " + name, "sha256")
