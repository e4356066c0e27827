"""Reads from an event the data that a window query needs: its key, and a value for each cell.

A payload that cannot be read has no fields, and is counted in `unreadable`.

A key is a scalar (`topology.query.numbers`). An event without a key is left out of the query and
counted in `unkeyed`. A value that is missing, null or unusable for its aggregate is left out, and
counted in `skipped`.

Events are read one by one (`read`). For queries that need only numbers and counts, many events are
read at a time into columns by key (`columns`). The result is the same, at a third of the cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from topology.answer.settings import key_path
from topology.model.event import Event
from topology.model.payload import UNREADABLE, read_payload
from topology.query.fields import NO_KEY, KeyTexts, at
from topology.query.numbers import number
from topology.window.cells import Makers, Values
from topology.window.settings import WindowSettings

NO_FIELDS: Final[dict[str, Any]] = {}
"""The fields of a payload that is not an object."""


class Columns:
    """The values of several events of one key: their number `n`, and a list of values per cell."""

    __slots__ = ("n", "values")

    def __init__(self, cells: int) -> None:
        self.n = 0
        self.values: list[list[Any]] = [[]] if cells == 1 else [[] for _ in range(cells)]


class WindowReading:
    """A parser of events for one query; `unreadable`, `unkeyed` and `skipped` are counters."""

    def __init__(self, query: WindowSettings, makers: Makers) -> None:
        self._key = key_path(query.key)
        self._texts = KeyTexts()
        wanted = [(plan.path, plan.usable) for plan in makers.cells]
        self._fields = list(dict.fromkeys(wanted))
        """The distinct fields to read; several cells may take the value of one field."""
        self._places = [self._fields.index(field) for field in wanted]
        self._paths = [plan.path for plan in makers.cells]
        self._uses = makers.uses
        self._is_flat = all(len(path) == 1 for path in (self._key or ("",), *self._paths))
        """Whether all fields that `columns` reads are on the first level of the payload."""
        self._blind = self._key is None and not self._fields
        self.unreadable = 0
        self.unkeyed = 0
        self.skipped = 0

    def read(self, value: Any) -> tuple[str, Values] | None:
        """Return the key's text and the values, or None if the event has no key.

        The values contain None for each cell that leaves its value out.
        """
        if self._blind:
            return NO_KEY, ()
        payload = value if isinstance(value, dict) else self._payload(value)
        key = self._texts.of(payload, self._key)
        if key is None:
            self.unkeyed += 1
            return None
        found: list[Any] = []
        for path, usable in self._fields:
            found.append(usable(at(payload, path)))
        values = tuple([found[place] for place in self._places])
        if None in found:
            unused = [uses for uses, value in zip(self._uses, values, strict=True) if value is None]
            self.skipped += sum(unused)
        return key, values

    def columns(self, events: Sequence[Event]) -> dict[str, Columns]:
        """Return the columns of each key, in the order in which the keys first occur.

        All cells must be tallies.
        """
        if self._blind:
            columns = Columns(0)
            columns.n = len(events)
            return {NO_KEY: columns}
        found: dict[str, Columns] = {}
        paths, text_of, key_path = self._paths, self._texts.text, self._key
        is_flat = self._is_flat
        fields: dict[str, Any] = NO_FIELDS
        for event in events:
            payload = event.value
            if not isinstance(payload, dict):
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
                    self.skipped += self._uses[i]
                else:
                    own.values[i].append(value)
        return found

    def _payload(self, value: Any) -> Any:
        payload = read_payload(value)
        if payload is UNREADABLE:
            self.unreadable += 1
        return payload
