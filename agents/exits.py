"""With which code every command ends, and a stage's process too.

One table for all of them; docs/reference/errors.md repeats it, and a test compares both.
"""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """A program that has begun and fails says FAILED: the same again may do. One that could
    not begin as it was asked says REFUSED: something has to be mended first; so does a worker whose
    state has lost its ground."""

    DONE = 0
    FAILED = 1
    REFUSED = 2
    UNREADABLE = 3
    NOTHING_USABLE = 4

    @property
    def meaning(self) -> str:
        return _MEANINGS[self]


_MEANINGS = {
    Exit.DONE: "The command is done. A service was stopped by SIGTERM or Ctrl-C, and has committed"
    " everything.",
    Exit.FAILED: "The command began and failed. Brokers or a store went away for good, records were"
    " not delivered, or an answer is wrong (`demo`).",
    Exit.REFUSED: "The command did not begin, because arguments, a file or a place that they name"
    " is wrong. A place is a broker, worker, topic, table or state. A worker also ends so if the"
    " place fails later.",
    Exit.UNREADABLE: "The input is unreadable (`replay`, `match`, `produce`, `init`, `audit`,"
    " `spark backfill`).",
    Exit.NOTHING_USABLE: "All lines were unusable, and there were at least twenty (`replay`,"
    " `spark backfill`) or any number (`audit`).",
}
