"""A TLS context that reads its PEM files again when they have changed.

A client keeps its context for life, while a program such as cert-manager replaces certificates
before they expire. So each new connection looks at the files, and uses a new context if their
state differs. Present connections stay.

Files are replaced one after the other. If they do not fit together at that moment, the last context
is used once more, and the next connection looks again.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

log = logging.getLogger(__name__)

FileState = tuple[int, int, int]
"""The inode, size and time of change of a file, which differ after it was replaced."""


class RenewedContext(ssl.SSLContext):
    """A context that hands each connection to the one that `build` makes of the `files`.

    Only asyncio's way of opening a connection, `wrap_bio`, is handed over. The constructor raises
    OSError if the files cannot be used. Cost: a few `stat` calls for each new connection.
    """

    def __new__(cls, *_: Any) -> Self:
        return super().__new__(cls, ssl.PROTOCOL_TLS_CLIENT)

    def __init__(self, build: Callable[[], ssl.SSLContext], files: Sequence[Path]) -> None:
        self._build = build
        self._files = files
        self._state = read_file_states(files)
        self._current = build()

    def wrap_bio(self, *arguments: Any, **named: Any) -> ssl.SSLObject:
        self._renew()
        return self._current.wrap_bio(*arguments, **named)

    def _renew(self) -> None:
        state = read_file_states(self._files)
        if state == self._state:
            return
        try:
            self._current = self._build()
        except OSError as error:  # The errors of ssl are OSErrors.
            log.warning(
                "the changed PEM files %s cannot be used, so the ones before are used: %s",
                *(", ".join(map(str, self._files)), error),
            )
            return
        self._state = state
        log.info("read the changed PEM files %s", ", ".join(map(str, self._files)))


def read_file_states(files: Sequence[Path]) -> tuple[FileState | None, ...]:
    """Return the state of each file; None for one that is absent."""
    return tuple(map(_read_state, files))


def _read_state(path: Path) -> FileState | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns
