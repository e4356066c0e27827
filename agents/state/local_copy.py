"""Manages a partition's local copy of its state, which may fail without harm.

The changelog is authoritative. So any failure of a copy (`agents.state.stores.store`) is logged and
counted, and the partition continues without one. No exception of a store leaves this module.

Everything that is read is checked against its seal (`agents.state.stores.seal`). If there is any
doubt, the copy counts as damaged. Then the copy is put aside and rebuilt from the changelog, and
this is logged and counted.

A copy that lags by more than the changelog's retention of tombstones would bring deleted keys back.
One ahead of the changelog's end belongs to another log. `why_unfit` finds both, and copies of
another topic of the same name.

All calls block, so make them from a thread (`agents.state.copy_writer` has one for writing). Calls
on one copy wait for each other.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

import msgspec

from agents.state.stores.rocksdb import RocksdbStore
from agents.state.stores.seal import SEAL, Seal, StateTally
from agents.state.stores.store import Changes, StateStore, StoreDamaged, StoreName

log = logging.getLogger(__name__)

TOMBSTONE_RETENTION_NS: Final = 24 * 3600 * 1_000_000_000
"""Kafka's default `delete.retention.ms` of a changelog."""

NOT_WHOLE: Final = "and the changelog after it do not form a complete state"
"""Why a copy is discarded that does not fit the changelog."""


@dataclass(frozen=True, slots=True)
class Copied:
    """The content of a copy and its position in the changelog; empty if the copy cannot be used.

    `tally` is that of the state's entries except the progress, or None if it is not known.
    """

    state: dict[bytes, bytes] = field(default_factory=dict)
    position: int | None = None
    tally: StateTally | None = None


def open_store(
    kind: Literal["memory", "rocksdb", "redis"],
    name: StoreName,
    directory: Path,
    redis_url: str | None,
) -> StateStore | None:
    """Return the store for the copy `name`; None for a kind that would be empty at every start.

    RocksDB may raise StoreLocked or StoreUnavailable here, and Redis only at its first use. Redis
    needs the extra `sinks`, and is imported only then.
    """
    if kind == "memory":
        return None
    if kind == "rocksdb":
        return RocksdbStore(directory, name)
    assert redis_url is not None, "`state: redis` needs a URL"
    from agents.state.stores.redis import RedisStore, connect

    return RedisStore(connect(redis_url), name, redis_url)


@dataclass(eq=False)
class LocalCopy:
    """The local copy of one partition's state.

    Attributes:
        new_store: Function that opens the store, or returns None if the topology has no copy.
        failed: Function that is called with the kind of each failure.
        log_id: The id of the copied changelog topic, "" if none is known.
    """

    name: str
    new_store: Callable[[], StateStore | None]
    failed: Callable[[str], None]
    log_id: str = ""

    def __post_init__(self) -> None:
        self._store: StateStore | None = None
        self._tally = StateTally()
        self._found: Seal | None = None
        self._position: int | None = None
        self._loaded_at: int | None = None
        self._left: Copied | None = None
        # A cancelled await leaves its thread running, so calls may overlap.
        self._lock = threading.RLock()

    @property
    def is_used(self) -> bool:
        """Whether there is a store that has not failed."""
        return self._store is not None

    def load(self) -> Copied:
        """Return the content of the copy; empty if it cannot be used."""
        copied = Copied()
        with self._lock:
            if self._left is not None:
                copied, self._left = self._left, None
                return copied
            with self._stop_on_failure():
                self._store = self.new_store()
                if self._store is not None:
                    copied = self._read_or_set_aside(self._store)
            self._position = self._loaded_at = copied.position
            return copied

    def preload(self, copied: Copied) -> None:
        """Make the next `load` return this content, which a standby has followed in memory.

        The store, if there is one, has this content or a later one.
        """
        with self._lock:
            self._left, self._loaded_at, self._found = copied, copied.position, None

    def _read_or_set_aside(self, store: StateStore) -> Copied:
        try:
            return self._read(store)
        except StoreDamaged as damage:
            self.failed(type(damage).__name__)
            self._tally = StateTally()
            log.error(
                "%s: the local copy is damaged and is rebuilt from the changelog; %s: %s",
                self.name,
                store.set_aside(),
                damage,
            )
            return Copied()

    def _read(self, store: StateStore) -> Copied:
        position = store.position()
        if position is None:
            return Copied()
        state = dict(store.items())
        try:
            seal = msgspec.msgpack.decode(state.pop(SEAL, b""), type=Seal)
        except msgspec.MsgspecError:
            raise StoreDamaged("it has no readable seal") from None
        self._tally.change(state)
        entries, digest = self._tally.entries, self._tally.digest
        if (position, entries, digest) != (seal.position, seal.entries, seal.digest):
            raise StoreDamaged(
                f"it has {entries} entries at position {position}, but its seal has"
                f" {seal.entries} at {seal.position}"
                + (", with other content" if entries == seal.entries else "")
            )
        self._found = seal
        return Copied(state, position)

    def why_unfit(self, end: int) -> str | None:
        """Return why the loaded copy cannot be used; None if it can, or if there is none.

        `end` is the committed end of the changelog. A copy whose time is far in the future is
        refused like an old one.
        """
        with self._lock:
            found, position = self._found, self._loaded_at
            if position is None:
                return None
            if found is not None and not is_same_log(found.log_id, self.log_id):
                return f"was made from another topic of the same name (id {found.log_id})"
            if position > end:
                return f"is at {position}, ahead of the changelog's end {end}"
            if found is None:
                return None
            age_ns = time.time_ns() - found.written_at_ns
            if abs(age_ns) < TOMBSTONE_RETENTION_NS:
                return None
            return (
                f"was written {age_ns / 1e9:.0f} s ago; the changelog keeps tombstones for"
                f" {TOMBSTONE_RETENTION_NS / 1e9:.0f} s"
            )

    def discard(self, why: str) -> None:
        """Empty the copy, and log the reason."""
        with self._lock:
            if self._store is None:
                return
            log.warning("%s: the local copy %s; it is rebuilt", self.name, why)
            self._position = None
            self._tally = StateTally()
            with self._stop_on_failure():
                self._store.clear()

    def move(self, changes: Changes, position: int) -> None:
        """Apply the changes to the copy, and advance it to `position` of the changelog."""
        with self._lock:
            if self._store is None or (self._position == position and not changes):
                return
            with self._stop_on_failure():
                tally = self._tally
                tally.change(changes)
                seal = Seal(position, tally.entries, tally.digest, self.log_id, time.time_ns())
                sealed = {**changes, SEAL: msgspec.msgpack.encode(seal)}
                self._store.apply(sealed, self._position, position)
                self._position = position

    def close(self) -> None:
        with self._lock:
            self._left = self._loaded_at = None
            store, self._store = self._store, None
            if store is None:
                return
            try:
                store.close()
            except Exception as failed:  # noqa: BLE001 - whatever a store raises
                self._warn("could not be closed", failed)

    @contextmanager
    def _stop_on_failure(self) -> Iterator[None]:
        """Stop using the store if the body fails."""
        try:
            yield
        except Exception as unusable:  # noqa: BLE001 - whatever a store raises
            self._tally = StateTally()
            self._warn("is no longer used", unusable)
            self.close()

    def _warn(self, what: str, why: Exception) -> None:
        log.warning("%s: the local copy %s: %s", self.name, what, why)
        self.failed(type(why).__name__)


def is_same_log(one: str, other: str) -> bool:
    """Return whether two topic ids may belong to one topic; "" stands for an unknown id."""
    return one == other or not (one and other)
