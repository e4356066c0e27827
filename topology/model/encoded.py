"""An event's value that is no plain JSON, with what reads it.

It is bytes to whatever writes, keeps or compares it. `topology.model.payload` alone looks inside.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

ReadEncoded = Callable[[bytes], Any]


class Encoded(bytes):
    """`read` makes of the bytes what queries read; ValueError where it cannot."""

    read: ReadEncoded

    @classmethod
    def of(cls, value: bytes, read: ReadEncoded) -> Encoded:
        made = cls(value)
        made.read = read
        return made
