"""Decodes the values of events for queries, and prepares values for writing.

A value stays opaque bytes until a query needs it. It is decoded as JSON or as `Encoded` defines,
once for all queries of a step (`Payloads`). The result is not stored in the event. Values that are
not bytes are used unchanged, since a driver that does not read Kafka may have decoded them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import orjson

from inorder.contract import MAX_INT64, MIN_INT64
from topology.base.encoded import Encoded
from topology.base.event import Event

Scan = Callable[[bytes], dict[str, Any] | None]
"""A function that reads some fields of a JSON object, or returns None if it cannot tell.

It checks the whole value. An object has the fields that the decoded value would have.
"""

MakeScan = Callable[[Sequence[str]], Scan]
"""A function that returns the `Scan` of these fields."""

MAX_KNOWN: Final = 4096
"""The most payloads of one step that are kept. A step may emit all that MERGE has buffered."""

MAX_SCANNED: Final = 16
"""The most fields that a `Scan` reads."""

MAX_DEPTH: Final = 100
"""The largest nesting depth of a value that is written."""


class Unreadable:
    """The type of `UNREADABLE`."""


UNREADABLE: Final = Unreadable()
"""The payload of an event whose value cannot be decoded."""


NOT_READ: Final = Unreadable()
"""The payload of an event that no query has read yet."""


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


class Payloads:
    """The payloads of the events of one step, each decoded once for all queries of a stage.

    Queries name what they read while the stage is built, and change no payload. If all of them read
    a few fields on the first level, `make_scan` gives the function that reads only these.

    Memory: up to `MAX_KNOWN` payloads of one step, until `clear`; none if a single query reads
    them. The payloads beyond that are decoded again by each query.
    """

    def __init__(self, make_scan: MakeScan | None = None) -> None:
        self._make_scan = make_scan
        self._scan: Scan | None = None
        self._names: dict[str, None] = {}
        self._is_partial = make_scan is not None
        self._readers = 0
        self._known: dict[Event, Any] = {}

    def register_paths(self, paths: Iterable[Sequence[str]] | None) -> None:
        """Note that a query reads these paths, or any path (None)."""
        self._readers += 1
        wanted = [()] if paths is None else [*paths]  # The empty path is the whole payload.
        if self._make_scan is None or any(len(path) != 1 for path in wanted):
            self._is_partial = False
        else:
            self._names |= dict.fromkeys(path[0] for path in wanted)
        is_short = self._is_partial and 0 < len(self._names) <= MAX_SCANNED
        self._scan = None
        if is_short and self._make_scan is not None:
            self._scan = self._make_scan([*self._names])

    def of(self, event: Event) -> Any:
        """Return the payload of an event, as `read_payload` does; it may lack unread fields."""
        value = event.value
        if self._readers > 1:
            known = self._known.get(event, NOT_READ)
            if known is not NOT_READ:
                return known
        scan = self._scan
        found = scan(value) if scan is not None and type(value) is bytes else None
        if found is None:
            found = read_payload(value)
        if self._readers > 1 and len(self._known) < MAX_KNOWN:
            self._known[event] = found
        return found

    def clear(self) -> None:
        """Forget the payloads at the end of a step."""
        if self._known:
            self._known = {}


def to_writable(value: Any, depth: int = 0) -> Any:
    """Return the value with null for integers beyond 64 bits and for parts nested too deeply."""
    if isinstance(value, int) and not MIN_INT64 <= value <= MAX_INT64:
        return None
    if isinstance(value, dict | list | tuple) and depth == MAX_DEPTH:
        return None
    if isinstance(value, dict):
        return {str(name): to_writable(part, depth + 1) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [to_writable(part, depth + 1) for part in value]
    return value if isinstance(value, int | float | str | None) else str(value)
