"""An event as user functions see it: what they may read, and nothing to write to.

Proved by: tests/topology/pattern/compile/test_expression.py,
tests/topology/pattern/test_operator.py
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import isnan
from types import MappingProxyType
from typing import Any, Final

from topology.pattern.compile.values import known
from topology.pattern.store.entry import Entry


@dataclass(frozen=True, slots=True)
class AbsentEvent:
    ts_ns: None = None
    error_ns: None = None
    source: None = None
    seq: None = None


@dataclass(frozen=True, slots=True)
class AbsentEntry:
    """Stands for an entry that is not there: all its attributes are NULL."""

    type: None = None
    time_ns: None = None
    payload: None = None
    event: AbsentEvent = AbsentEvent()


ABSENT: Final = AbsentEntry()

Get = Callable[[Entry | AbsentEntry], Any]
"""An attribute, NULL where there is none."""

ATTRIBUTES: Final[dict[str, Get]] = {
    "time": lambda entry: entry.time_ns,
    "ts": lambda entry: entry.event.ts_ns,
    "error": lambda entry: entry.event.error_ns,
    "source": lambda entry: entry.event.source,
    "seq": lambda entry: entry.event.seq,
    "type": lambda entry: entry.type,
}
"""The reserved ones, which have no parts. `payload` is one too, and has."""


def attribute(path: tuple[str, ...]) -> Get:
    """What `.path` stands for: `.payload.name` is always the payload's."""
    first, rest = path[0], path[1:]
    if first == "payload":
        return _inside(rest)
    if first not in ATTRIBUTES:
        return _inside(path)
    return ATTRIBUTES[first] if not rest else _nothing


def field_of(path: tuple[str, ...]) -> str:
    """The field of the payload that the path stands for; empty if it is none of the first level."""
    if path[0] == "payload":
        return path[1] if len(path) == 2 else ""
    return path[0] if len(path) == 1 and path[0] not in ATTRIBUTES else ""


def _nothing(_: Entry | AbsentEntry) -> None:
    return None


def _inside(path: tuple[str, ...]) -> Get:
    if len(path) == 1:
        name = path[0]

        def field(entry: Entry | AbsentEntry) -> Any:
            payload = entry.payload
            if type(payload) is not dict:
                return None
            found = payload.get(name)
            return None if type(found) is float and isnan(found) else found

        return field

    def nested(entry: Entry | AbsentEntry) -> Any:
        found = entry.payload
        for name in path:
            found = found.get(name) if type(found) is dict else None
        return known(found)

    return nested


class EventView:
    """`view.time`, `.ts`, `.error`, `.source`, `.seq`, `.type`, `.payload`, and the fields of
    the payload as attributes or items (`view.temperature`, `view["time"]` for a field that has
    the name of an attribute); None where there is none."""

    __slots__ = ("_entry",)

    def __init__(self, entry: Entry) -> None:
        object.__setattr__(self, "_entry", entry)

    @property
    def payload(self) -> Any:
        payload = self._entry.payload
        return MappingProxyType(payload) if type(payload) is dict else payload

    def __getitem__(self, name: str) -> Any:
        payload = self._entry.payload
        return known(payload.get(name)) if type(payload) is dict else None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in ATTRIBUTES:
            return ATTRIBUTES[name](self._entry)
        return self[name]

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"events are read-only: {name} cannot be set")

    def __repr__(self) -> str:
        return repr(self._entry)
