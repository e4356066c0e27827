"""Values as bytes, without decoding: `format: bytes`."""

from __future__ import annotations


def decode(value: bytes | None) -> object:
    """Return the bytes themselves."""
    return value
