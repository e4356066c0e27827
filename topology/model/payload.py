"""What windows and patterns read of an event's value: JSON, decoded once, or as `Encoded` reads it.

Values are opaque bytes until then. A driver that reads events from somewhere else may have
decoded them already; they are taken as they are.
"""

from __future__ import annotations

from typing import Any, Final

import orjson

from topology.model.encoded import Encoded


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
