"""Exit codes of every command and of a stage's process.

The table in docs/reference/errors.md explains each of them by its name.
"""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """An exit code.

    A program that began and then failed exits with FAILED: the same command may succeed later. One
    that could not begin as asked exits with REFUSED: something has to be repaired first. A worker
    whose state has lost its basis exits with REFUSED, too. UNREADABLE: the input cannot be read.
    NOTHING_USABLE: the input was read, and nearly nothing in it is a record.
    """

    DONE = 0
    FAILED = 1
    REFUSED = 2
    UNREADABLE = 3
    NOTHING_USABLE = 4
