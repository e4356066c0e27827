"""Values as they are: `format: bytes`."""

from __future__ import annotations


def decode(value: bytes | None) -> object:
    """The bytes themselves."""
    return value
