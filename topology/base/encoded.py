"""Stores the bytes of an event's value together with the function that decodes them.

It is used for values that are not JSON. All code that writes, stores or compares a value sees its
bytes. Only `topology.base.payload` decodes them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

ReadEncoded = Callable[[bytes], Any]


class Encoded(bytes):
    """The bytes of a value, with the function that decodes them.

    `read` decodes the bytes for queries, and raises ValueError if it cannot.
    """

    read: ReadEncoded

    @classmethod
    def of(cls, value: bytes, read: ReadEncoded) -> Encoded:
        made = cls(value)
        made.read = read
        return made
