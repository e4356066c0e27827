"""Writes a local copy in its own thread, without delaying other work.

`note` takes committed changes and returns at once. The thread writes the collected changes every
`WRITE_EVERY_S`, or earlier if there are many. A value that changed ten times meanwhile is written
once. So a copy lags by a moment, and by more if the disk or the server is slow. A store that hangs
delays only `close`, by at most `CLOSE_WAIT_S`.

During a write at most `MAX_WAITING_BYTES` wait for the next one. Beyond that the copy is no longer
updated until the partition is opened again. An old copy is as valid as a new one, because the
changelog has the later changes.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from typing import Final

from agents.state.local_copy import LocalCopy
from agents.state.stores.store import Changes

log = logging.getLogger(__name__)

WRITE_EVERY_S: Final = 1.0
WRITE_AT_BYTES: Final = 4 << 20
"""Total size of the waiting changes at which they are written at once, before `WRITE_EVERY_S`."""

MAX_WAITING_BYTES: Final = 64 << 20
"""Maximum total size of waiting keys and values; every change counts, even of the same key."""

CLOSE_WAIT_S: Final = 3.0
"""Time allowed for the last write; a store that hangs for longer is abandoned."""

BEHIND: Final = "behind"
"""The reason under which the writer's failures are counted."""


class CopyWriter:
    """The writer of `copy`, which nothing else may use after the first `note`.

    Always call `close`, which also closes the copy.
    """

    def __init__(self, copy: LocalCopy) -> None:
        self.copy = copy
        self._changed = threading.Condition()  # The condition guards all attributes below.
        self._waiting: dict[bytes, bytes | None] = {}
        self._waiting_bytes = 0
        self._waiting_position: int | None = None
        self._is_over = False
        self._thread: threading.Thread | None = None

    def note(self, changes: Changes, position: int) -> None:
        """Accept the changes up to `position` of the changelog, without ever blocking."""
        if not self.copy.is_used:
            return
        size = sum(len(key) + len(value or b"") for key, value in changes.items())
        with self._changed:
            if self._is_over:
                return
            if self._waiting and self._waiting_bytes + size > MAX_WAITING_BYTES:
                self._give_up()
                return
            self._waiting.update(changes)
            self._waiting_bytes += size
            self._waiting_position = position
            if self._thread is None:
                self._thread = threading.Thread(target=self._write_until_closed, daemon=True)
                self._thread.start()
            if self._waiting_bytes >= WRITE_AT_BYTES:
                self._changed.notify()

    async def close(self) -> None:
        """Write the waiting changes and close the copy; give up after `CLOSE_WAIT_S`."""
        ended = asyncio.Event()
        loop = asyncio.get_running_loop()

        def end() -> None:
            if thread is not None:
                thread.join()
            self.copy.close()
            # The loop may have been closed in the meantime.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(ended.set)

        with self._changed:
            thread = self._thread
            self._is_over = True
            self._changed.notify()
        threading.Thread(target=end, daemon=True).start()
        try:
            await asyncio.wait_for(ended.wait(), CLOSE_WAIT_S)
        except TimeoutError:
            log.warning("%s: the local copy hangs; it is abandoned", self.copy.name)
            self.copy.failed(BEHIND)

    def _give_up(self) -> None:
        log.warning(
            "%s: the local copy cannot keep up (%d bytes wait) and is no longer updated; the"
            " next start reads the rest from the changelog",
            self.copy.name,
            self._waiting_bytes,
        )
        self.copy.failed(BEHIND)
        self._take()
        self._is_over = True
        self._changed.notify()

    def _take(self) -> tuple[Changes, int | None]:
        taken = self._waiting, self._waiting_position
        self._waiting, self._waiting_bytes, self._waiting_position = {}, 0, None
        return taken

    def _write_until_closed(self) -> None:
        """Write until the writer is closed and no changes wait; this is the body of the thread."""
        is_over = False
        while not is_over:
            with self._changed:
                self._changed.wait_for(self._is_due, WRITE_EVERY_S)
                is_over = self._is_over
                changes, position = self._take()
            if position is not None:
                self.copy.move(changes, position)

    def _is_due(self) -> bool:
        return self._is_over or self._waiting_bytes >= WRITE_AT_BYTES
