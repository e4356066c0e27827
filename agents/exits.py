"""With which code every command ends, and a stage's process too.

One table for all of them; docs/operate/operations.md repeats it, and a test holds both together.
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
    Exit.DONE: "done; of what serves: stopped by SIGTERM or Ctrl-C, all committed",
    Exit.FAILED: "it began and failed: brokers or a store that went away for good, records not"
    " delivered, an answer that is wrong (`demo`)",
    Exit.REFUSED: "it did not begin as asked: bad arguments, a bad file, or a place they name is"
    " absent or of another shape (no broker or worker answers there, no such topic or table,"
    " a state that is not whole or of another format), which may come to pass while a worker runs",
    Exit.UNREADABLE: "the input cannot be read (`replay`, `match`, `produce`, `init`, `audit`,"
    " `spark backfill`)",
    Exit.NOTHING_USABLE: "the input was read, and of twenty lines or more not one could be read"
    " (`replay`, `spark backfill`), or of any number (`audit`)",
}
