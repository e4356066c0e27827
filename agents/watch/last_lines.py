"""Stores the last warnings and errors logged by a worker's processes, for its status page."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

LOG: Final = "log"
"""Key of the last log lines in a stage's answer to `/health`."""

KEPT: Final = 20
LONGEST: Final = 1_000
"""Maximum number of characters of a stored line."""


class LastLines(logging.Handler):
    """A log handler that stores the last `KEPT` warnings and errors, in constant time per line."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._lines: deque[dict[str, Any]] = deque(maxlen=KEPT)

    def emit(self, record: logging.LogRecord) -> None:
        """Store the message, without a stack trace."""
        level = record.levelname.lower()
        text = record.getMessage()[:LONGEST]
        self._lines.append({"at_ns": int(record.created * 1e9), "level": level, "text": text})

    @contextmanager
    def listen(self) -> Iterator[None]:
        """Store the log lines of this process inside the `with` block."""
        root = logging.getLogger()
        root.addHandler(self)
        try:
            yield
        finally:
            root.removeHandler(self)

    def add(self, lines: list[dict[str, Any]]) -> None:
        """Add lines of another process, except those that are stored already."""
        newest_ns = self._lines[-1]["at_ns"] if self._lines else 0
        self._lines.extend(line for line in lines if line["at_ns"] > newest_ns)

    def plain(self) -> list[dict[str, Any]]:
        """Return the lines with `at_ns`, `level` and `text`, the oldest first."""
        return list(self._lines)
