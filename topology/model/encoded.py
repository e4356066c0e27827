"""Stores an event's value that is not plain JSON, together with the function that decodes it.

All code that writes, keeps or compares the value sees bytes. Only `topology.model.payload` decodes
it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

ReadEncoded = Callable[[bytes], Any]


class Encoded(bytes):
    """The bytes of a value, with the function that decodes them.

    `read` decodes the bytes for queries. It raises ValueError if it cannot.
    """

    read: ReadEncoded

    @classmethod
    def of(cls, value: bytes, read: ReadEncoded) -> Encoded:
        made = cls(value)
        made.read = read
        return made
