"""Applies batches to a RocksDB copy until it is killed; one line per batch done.

Batch n sets the keys 0..SPAN-1 to n, adds the key n and deletes the key n - SPAN.
"""

from __future__ import annotations

import sys
from pathlib import Path

from agents.state.stores import rocksdb
from agents.state.stores.rocksdb import RocksdbStore
from agents.state.stores.store import StoreName

NAME = StoreName("kill", "reorder", "changelog", 0)
SPAN = 20
WRITE_BUFFER_BYTES = 64 << 10
"""Small, so that flushes and compactions are under way when the kill comes."""


def entry(number: int) -> bytes:
    return b"n%d" % number


def fixed(number: int) -> bytes:
    return b"f%d" % number


def padded(number: int) -> bytes:
    return b"%0200d" % number


def expected(position: int) -> dict[bytes, bytes]:
    """What a whole copy holds after batch `position`."""
    values = {fixed(k): padded(position) for k in range(SPAN)}
    return values | {entry(n): padded(n) for n in range(max(1, position - SPAN + 1), position + 1)}


def main(directory: str) -> None:
    vars(rocksdb)["WRITE_BUFFER_BYTES"] = WRITE_BUFFER_BYTES
    store = RocksdbStore(Path(directory), NAME)
    base = store.position()
    while True:
        position = (base or 0) + 1
        changes: dict[bytes, bytes | None] = {fixed(k): padded(position) for k in range(SPAN)}
        changes[entry(position)] = padded(position)
        changes[entry(position - SPAN)] = None
        store.apply(changes, base, position)
        sys.stdout.write(f"{position}\n")
        sys.stdout.flush()
        base = position


if __name__ == "__main__":
    main(sys.argv[1])
