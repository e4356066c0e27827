"""What a query reads of a payload: the value that a path leads to.

The payload is opaque until here. A `Decode` makes an object of it, or UNREADABLE
(`topology.model.payload`); it is called only if the query needs a field.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

Decode = Callable[[Any], Any]

NO_KEY: Final = ""
"""The key's text where the query has none."""


def at(payload: Any, path: tuple[str, ...]) -> Any:
    """What the path leads to; None if nothing is there."""
    if len(path) == 1 and isinstance(payload, dict):
        return payload.get(path[0])
    for name in path:
        if not isinstance(payload, dict):
            return None
        payload = payload.get(name)
    return payload


def path_of(words: tuple[str, ...]) -> tuple[str, ...]:
    """Without the leading `payload`."""
    return words[1:] if words and words[0] == "payload" else words
