"""Stores an event's value that is not plain JSON, with the function that decodes it.

The value is bytes to all code that writes, keeps or compares it. Only `topology.model.payload`
looks inside.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

ReadEncoded = Callable[[bytes], Any]


class Encoded(bytes):
    """A value as bytes, with the function that decodes it.

    `read` decodes the bytes for queries. It raises ValueError if it cannot.
    """

    read: ReadEncoded

    @classmethod
    def of(cls, value: bytes, read: ReadEncoded) -> Encoded:
        made = cls(value)
        made.read = read
        return made
