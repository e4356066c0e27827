"""Exit codes of every command and of a stage's process.

The table in docs/reference/errors.md explains each of them by its name.
"""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """An exit code.

    Attributes:
        DONE: The command succeeded.
        FAILED: The program started and then failed; the same command may succeed later.
        REFUSED: The program could not start as asked, and something must be repaired first; or a
            worker's state no longer matches its topics.
        UNREADABLE: The input cannot be read, or `produce` left out rows that it could not read.
        NOTHING_USABLE: The input was read, but almost nothing in it is a valid record.
    """

    DONE = 0
    FAILED = 1
    REFUSED = 2
    UNREADABLE = 3
    NOTHING_USABLE = 4
