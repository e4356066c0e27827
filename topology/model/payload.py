"""Decodes the values of events for windows and patterns, and prepares values for writing.

Values are opaque bytes before that. They are JSON, decoded once, or decoded as `Encoded` defines. A
driver that reads events from elsewhere may have decoded them already. Such values are used as they
are.
"""

from __future__ import annotations

from typing import Any, Final

import orjson

from topology.model.encoded import Encoded

MAX_INT64: Final = 2**63 - 1
MIN_INT64: Final = -(2**63)
MAX_DEPTH: Final = 100
"""The largest depth of a value that is written."""


class Unreadable:
    """The type of `UNREADABLE`."""


UNREADABLE: Final = Unreadable()
"""It replaces the payload of a value that is not JSON."""


def read_payload(value: Any) -> Any:
    """Return the decoded bytes, None for no bytes, or any other value as it is."""
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
    """Return the value for readers of 64 bits. Larger or too deeply nested parts become null."""
    if isinstance(value, int) and not MIN_INT64 <= value <= MAX_INT64:
        return None
    if isinstance(value, dict | list | tuple) and depth == MAX_DEPTH:
        return None
    if isinstance(value, dict):
        return {str(name): writable(part, depth + 1) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [writable(part, depth + 1) for part in value]
    return value if isinstance(value, int | float | str | None) else str(value)
