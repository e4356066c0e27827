"""What a query takes from an event: its key, and a value for each aggregate.

A payload that cannot be read is one without fields, and counted in `unreadable`.

A key is a scalar (`numbers`); an event without one is left out of the query and counted in
`unkeyed`. A value that its aggregate cannot use is left out there, and counted in `skipped`;
one that is missing or null likewise.

Events are read one by one (`read`), or many at a time into columns by key (`columns`), where a
query takes nothing but numbers and counts: that gives the same at a third of the cost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from topology.answer.settings import key_path
from topology.model.event import Event
from topology.model.payload import UNREADABLE, read_payload
from topology.query.fields import NO_KEY, Decode, KeyTexts, at
from topology.query.numbers import number
from topology.window.aggregates.built_in import BUILT_IN, Usable
from topology.window.aggregates.custom import Function
from topology.window.settings import WindowSettings

Values = tuple[Any, ...]

NO_FIELDS: Final[dict[str, Any]] = {}
"""What a payload has that is no object."""


class Columns:
    """What one key has: `n` events, and for each field that is read the values that can be used."""

    __slots__ = ("n", "values")

    def __init__(self, fields: int) -> None:
        self.n = 0
        self.values: list[list[Any]] = [[]] if fields == 1 else [[] for _ in range(fields)]


class WindowReading:
    """`unreadable`, `unkeyed` and `skipped` only grow."""

    def __init__(
        self, query: WindowSettings, decode: Decode, functions: Mapping[str, Function]
    ) -> None:
        self._decode = decode
        self._is_json = decode is read_payload
        self._key = key_path(query.key)
        self._texts = KeyTexts()
        outputs = query.outputs.values()
        wanted = [(each.path, _usable(each.function, functions)) for each in outputs]
        self._fields = list(dict.fromkeys(wanted))
        """Each is read once, however many aggregates are made of it."""
        self._uses = [wanted.count(field) for field in self._fields]
        self._places = [self._fields.index(field) for field in wanted]
        self._numbers = [path for path, usable in self._fields if usable is number]
        self._number_uses = [
            uses
            for (_, usable), uses in zip(self._fields, self._uses, strict=True)
            if usable is number
        ]
        self._is_flat = all(len(path) == 1 for path in (self._key or ("",), *self._numbers))
        """All that `columns` reads lies on the first level of the payload."""
        self._blind = self._key is None and all(usable is None for _, usable in wanted)
        self._ones: Values = (1,) * len(wanted)
        self.unreadable = 0
        self.unkeyed = 0
        self.skipped = 0

    def read(self, value: Any) -> tuple[str, Values] | None:
        """The key's text and the values, None for those left out; None without a key."""
        if self._blind:
            return NO_KEY, self._ones
        payload = self._payload(value)
        key = self._texts.of(payload, self._key)
        if key is None:
            self.unkeyed += 1
            return None
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

    def columns(self, events: Sequence[Event]) -> dict[str, Columns]:
        """By key, in the order in which they first come."""
        if self._blind:
            columns = Columns(0)
            columns.n = len(events)
            return {NO_KEY: columns}
        found: dict[str, Columns] = {}
        paths, text_of, key_path = self._numbers, self._texts.text, self._key
        is_flat, is_json = self._is_flat, self._is_json
        fields: dict[str, Any] = NO_FIELDS
        for event in events:
            payload = event.value
            if not is_json or not isinstance(payload, dict):
                payload = self._payload(payload)
            if is_flat:
                fields = payload if isinstance(payload, dict) else NO_FIELDS
            key = NO_KEY
            if key_path is not None:
                text = text_of(fields.get(key_path[0]) if is_flat else at(payload, key_path))
                if text is None:
                    self.unkeyed += 1
                    continue
                key = text
            own = found.get(key)
            if own is None:
                own = found[key] = Columns(len(paths))
            own.n += 1
            for i, path in enumerate(paths):
                value = number(fields.get(path[0]) if is_flat else at(payload, path))
                if value is None:
                    self.skipped += self._number_uses[i]
                else:
                    own.values[i].append(value)
        return found

    def _payload(self, value: Any) -> Any:
        if self._is_json and isinstance(value, dict):
            return value
        payload = self._decode(value)
        if payload is UNREADABLE:
            self.unreadable += 1
        return payload


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
