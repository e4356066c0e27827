"""Reads the attributes of an event by their paths in a query."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import isnan
from typing import Any, Final

from topology.queries.pattern.compile.values import null_if_nan
from topology.queries.pattern.store.entry import Entry


@dataclass(frozen=True, slots=True)
class AbsentEvent:
    ts_ns: None = None
    error_ns: None = None
    source: None = None
    seq: None = None


@dataclass(frozen=True, slots=True)
class AbsentEntry:
    """The stand-in for an entry that does not exist; all its attributes are NULL."""

    type: None = None
    time_ns: None = None
    payload: None = None
    event: AbsentEvent = AbsentEvent()


ABSENT: Final = AbsentEntry()

Get = Callable[[Entry | AbsentEntry], Any]
"""A function that reads an attribute of an entry, or NULL if the entry does not have it."""

ATTRIBUTES: Final[dict[str, Get]] = {
    "time": lambda entry: entry.time_ns,
    "ts": lambda entry: entry.event.ts_ns,
    "error": lambda entry: entry.event.error_ns,
    "source": lambda entry: entry.event.source,
    "seq": lambda entry: entry.event.seq,
    "type": lambda entry: entry.type,
}
"""Readers of the reserved attributes. `payload` is reserved too, but is read field by field."""


def attribute_getter(path: tuple[str, ...]) -> Get:
    """Return the function that reads the attribute with this path.

    A path that begins with `payload` always names a field of the payload.
    """
    first, rest = path[0], path[1:]
    if first == "payload":
        return _payload_getter(rest)
    if first not in ATTRIBUTES:
        return _payload_getter(path)
    return ATTRIBUTES[first] if not rest else lambda _: None


def _payload_getter(path: tuple[str, ...]) -> Get:
    if len(path) == 1:
        name = path[0]

        def read_field(entry: Entry | AbsentEntry) -> Any:
            payload = entry.payload
            if type(payload) is not dict:
                return None
            found = payload.get(name)
            return None if type(found) is float and isnan(found) else found

        return read_field

    def read_nested(entry: Entry | AbsentEntry) -> Any:
        found = entry.payload
        for name in path:
            found = found.get(name) if type(found) is dict else None
        return null_if_nan(found)

    return read_nested
