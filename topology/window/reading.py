"""What a query takes from an event: its key, and a value for each aggregate.

A payload that cannot be read is one without fields, and counted in `unreadable`.

A key is a scalar (`numbers`); an event without one is left out of the query and counted in
`unkeyed`. A value that its aggregate cannot use is left out there, and counted in `skipped`;
one that is missing or null likewise.

Proved by: tests/topology/window/test_bounds.py, tests/topology/window/test_examples.py
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from topology.model.payload import UNREADABLE
from topology.query.fields import NO_KEY, Decode, at
from topology.query.numbers import scalar, text_of
from topology.window.aggregates.built_in import BUILT_IN, Usable
from topology.window.aggregates.custom import Function
from topology.window.config import WindowConfig

Values = tuple[Any, ...]


class WindowReading:
    """`unreadable`, `unkeyed` and `skipped` only grow."""

    def __init__(
        self, config: WindowConfig, decode: Decode, functions: Mapping[str, Function]
    ) -> None:
        self._decode = decode
        self._key = config.key
        wanted = [(output.path, _usable(output.function, functions)) for output in config.outputs]
        self._fields = list(dict.fromkeys(wanted))
        """Each is read once, however many aggregates are made of it."""
        self._uses = [wanted.count(field) for field in self._fields]
        self._places = [self._fields.index(field) for field in wanted]
        self._blind = config.key is None and all(usable is None for _, usable in wanted)
        self._ones: Values = (1,) * len(wanted)
        self.unreadable = 0
        self.unkeyed = 0
        self.skipped = 0

    def read(self, value: Any) -> tuple[str, Values] | None:
        """The key's text and the values, None for those left out; None without a key."""
        if self._blind:
            return NO_KEY, self._ones
        payload = self._decode(value)
        if payload is UNREADABLE:
            self.unreadable += 1
        key = NO_KEY
        if self._key is not None:
            named = scalar(at(payload, self._key))
            if named is None:
                self.unkeyed += 1
                return None
            key = text_of(named)
        found: list[Any] = []
        for path, usable in self._fields:
            if usable is None:
                found.append(1)
                continue
            value = usable(at(payload, path))
            if value is None:
                self.skipped += self._uses[len(found)]
            found.append(value)
        return key, tuple([found[place] for place in self._places])


def _usable(function: str, functions: Mapping[str, Function]) -> Usable | None:
    """None where no value is needed."""
    if function in functions:
        return _unfailing(functions[function].usable)
    return BUILT_IN[function].usable


def _unfailing(usable: Usable) -> Usable:
    """A user's code: what it raises at is left out."""

    def tried(value: Any) -> Any:
        try:
            return usable(value)
        except Exception:  # noqa: BLE001
            return None

    return tried
