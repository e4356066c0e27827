"""Decodes the values of events for queries, and prepares values for writing.

A value stays opaque bytes until a query needs it. Each operator that needs it decodes it, as JSON
or as `Encoded` defines. The result is not stored in the event. Values that are not bytes are used
unchanged, since a driver that does not read Kafka may have decoded them.
"""

from __future__ import annotations

from typing import Any, Final

import orjson

from inorder.contract import MAX_INT64, MIN_INT64
from topology.model.encoded import Encoded

MAX_DEPTH: Final = 100
"""The largest nesting depth of a value that is written."""


class Unreadable:
    """The type of `UNREADABLE`."""


UNREADABLE: Final = Unreadable()
"""The payload of an event whose value cannot be decoded."""


def read_payload(value: Any) -> Any:
    """Return the decoded payload: None for empty bytes; a value that is not bytes unchanged."""
    if not isinstance(value, bytes | bytearray | memoryview):
        return value
    if not value:
        return None
    if isinstance(value, Encoded):
        try:
            return value.read(value)
        except ValueError:
            return UNREADABLE
    try:
        return orjson.loads(value)
    except orjson.JSONDecodeError:
        return UNREADABLE


def writable(value: Any, depth: int = 0) -> Any:
    """Return the value with null for integers beyond 64 bits and for parts nested too deeply."""
    if isinstance(value, int) and not MIN_INT64 <= value <= MAX_INT64:
        return None
    if isinstance(value, dict | list | tuple) and depth == MAX_DEPTH:
        return None
    if isinstance(value, dict):
        return {str(name): writable(part, depth + 1) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [writable(part, depth + 1) for part in value]
    return value if isinstance(value, int | float | str | None) else str(value)
