"""With which code every command ends, and a stage's process too.

docs/reference/errors.md has a table of what they mean, which names each of them.
"""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """A program that has begun and fails says FAILED: the same again may do. One that could
    not begin as it was asked says REFUSED: something has to be mended first; so does a worker whose
    state has lost its ground. UNREADABLE: the input cannot be read. NOTHING_USABLE: it was read,
    and nearly nothing of it is a record."""

    DONE = 0
    FAILED = 1
    REFUSED = 2
    UNREADABLE = 3
    NOTHING_USABLE = 4
