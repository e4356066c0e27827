"""From the topology file's `state: rocksdb | redis | memory` to a copy.

Proved by: tests/agents/state/stores/test_laws.py
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from agents.state.stores.memory import MemoryStore
from agents.state.stores.rocksdb import RocksdbStore
from agents.state.stores.store import Store, StoreName

StoreKind = Literal["rocksdb", "redis", "memory"]


def open_store(
    kind: StoreKind,
    name: StoreName,
    *,
    directory: Path | None = None,
    redis_url: str | None = None,
) -> Store:
    """The copy of `name`; ValueError where its place is not given.

    RocksDB may raise StoreLocked or StoreUnavailable here, Redis only when it is asked. Redis
    needs the extra `sinks`, and is imported only then.
    """
    if kind == "rocksdb":
        if directory is None:
            raise ValueError("state: rocksdb needs a directory; give --state-dir")
        return RocksdbStore(directory, name)
    if kind == "redis":
        if redis_url is None:
            raise ValueError("state: redis needs a server; give its address, redis://HOST:PORT/0")
        from agents.state.stores.redis import RedisStore, connect, hung_at

        return RedisStore(connect(redis_url), name, hung_at(redis_url))
    if kind == "memory":
        return MemoryStore(name)
    raise ValueError(f"state: {kind} is not known; write rocksdb, redis or memory")
