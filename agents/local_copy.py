"""A partition's local copy of its state, which may fail without harm.

The changelog has the truth, so whatever goes wrong with a copy (`agents.state.store`) is
told and counted, and the partition goes on without one. All calls block, so make
them from a thread; one waits for the other.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping

from agents.state.store import Store, StoreError, why_discard

log = logging.getLogger(__name__)


class LocalCopy:
    """`new_store` makes the store, or None where the topology wants no copy; `failed`
    hears the kind of each failure."""

    def __init__(
        self, name: str, new_store: Callable[[], Store | None], failed: Callable[[str], None]
    ) -> None:
        self._name = name
        self._new_store = new_store
        self._failed = failed
        self._store: Store | None = None
        self._position: int | None = None
        self._lock = threading.RLock()  # a cancelled await leaves its thread at work

    def load(self) -> tuple[dict[bytes, bytes], int | None]:
        """What it holds, and the changelog offset it stands at; nothing, if unusable."""
        with self._lock:
            try:
                self._store = self._new_store()
                position = self._store.position() if self._store is not None else None
                if self._store is None or position is None:
                    return {}, None
                state = dict(self._store.items())
            except StoreError as unusable:
                self._give_up(unusable)
                return {}, None
            self._position = position
            return state, position

    def is_unfit(self, changelog_end: int) -> bool:
        """It must not be built on; it is empty then, and begins anew."""
        with self._lock:
            if self._store is None:
                return False
            try:
                why = why_discard(self._store, changelog_end=changelog_end, now_ns=time.time_ns())
                if why is None:
                    return False
                log.warning("%s: the local copy %s; it is made anew", self._name, why)
                self._position = None
                self._store.clear()
            except StoreError as unusable:
                self._give_up(unusable)
            return True

    def move(self, changes: Mapping[bytes, bytes | None], position: int) -> None:
        """Bring it up to `position` of the changelog."""
        with self._lock:
            if self._store is None or (self._position == position and not changes):
                return
            try:
                self._store.apply(changes, self._position, position, written_at_ns=time.time_ns())
            except StoreError as unusable:
                self._give_up(unusable)
            else:
                self._position = position

    def close(self) -> None:
        with self._lock:
            if self._store is not None:
                self._store.close()
                self._store = None

    def _give_up(self, why: StoreError) -> None:
        log.warning("%s: goes on without a local copy: %s", self._name, why)
        self._failed(type(why).__name__)
        self.close()
