"""Decodes eight bytes as a big-endian integer, as Kafka's own serializer writes it."""

from __future__ import annotations

from typing import Final

from topology.records.values import UNDECODABLE, ValueFault

SIZE: Final = 8


def decode(value: bytes | None) -> int | None:
    """Return the integer, None for null; raise ValueFault for any other length."""
    if value is None:
        return None
    if len(value) != SIZE:
        remedy = "set the key_format that the keys have"
        raise ValueFault(UNDECODABLE, f"an int64 has {SIZE} bytes, not {len(value)}; {remedy}")
    return int.from_bytes(value, "big", signed=True)
