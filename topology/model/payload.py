"""What windows and patterns read of an event's value: JSON, decoded once, or as `Encoded` reads it;
and what of a value can be written again.

Values are opaque bytes until then. A driver that reads events from somewhere else may have
decoded them already; they are taken as they are.
"""

from __future__ import annotations

from typing import Any, Final

import orjson

from topology.model.encoded import Encoded

MAX_INT64: Final = 2**63 - 1
MIN_INT64: Final = -(2**63)
MAX_DEPTH: Final = 100
"""No value is written that is nested deeper."""


class Unreadable:
    """The type of `UNREADABLE`."""


UNREADABLE: Final = Unreadable()
"""Instead of the payload of a value that is no JSON."""


def read_payload(value: Any) -> Any:
    """JSON of bytes; None of nothing; any other value as it is."""
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
    """The value for readers of 64 bits: what is larger, or nested too deep, is null."""
    if isinstance(value, int) and not MIN_INT64 <= value <= MAX_INT64:
        return None
    if isinstance(value, dict | list | tuple) and depth == MAX_DEPTH:
        return None
    if isinstance(value, dict):
        return {str(name): writable(part, depth + 1) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [writable(part, depth + 1) for part in value]
    return value if isinstance(value, int | float | str | None) else str(value)
