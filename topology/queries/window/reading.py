"""Reads from an event the data that a window query needs: its key, and a value for each cell.

A payload that cannot be read has no fields, and is counted in `unreadable`.

A key is a scalar (`topology.answer.query.numbers`). An event without a key is left out of the
query and counted in `unkeyed`. One that does not meet the query's condition is counted in
`filtered`. The condition of an aggregate leaves out its value alone, without a count. A value that
is missing, null or unusable for its aggregate is left out, too. It is counted by field and kind
(`list_uses`), and once for each of its aggregates in `skipped`.

Events are read one by one (`read`). For queries that need only numbers and counts, many events are
read at a time into columns by key (`columns`). The result is the same, at a third of the cost.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from topology.answer.query.fields import (
    NO_KEY,
    SOURCE_KEY,
    KeyTexts,
    at,
    find_payload_paths,
    is_list,
)
from topology.answer.query.numbers import number
from topology.answer.settings import key_path
from topology.base.event import Event
from topology.base.field_use import FieldUse
from topology.base.paths import format_path
from topology.base.payload import UNREADABLE, Payloads
from topology.queries.window.aggregates.built_in import TIME_AVG
from topology.queries.window.aggregates.sums import Events
from topology.queries.window.cells import THE_ROW, Makers, Values
from topology.queries.window.left_out import LeftOut
from topology.queries.window.settings import WindowQuery

NO_FIELDS: Final[dict[str, Any]] = {}
"""The fields of a payload that is not an object."""


Filter = Callable[[Event, Any], bool]
"""A test of an event with its payload."""


class Columns:
    """The values of several events of one key: their number `n`, and a list of values per cell."""

    __slots__ = ("n", "values")

    def __init__(self, cells: int) -> None:
        self.n = 0
        self.values: list[list[Any]] = [[]] if cells == 1 else [[] for _ in range(cells)]


class WindowReading:
    """A parser of events for one query; `unreadable`, `unkeyed` and `filtered` are counters."""

    def __init__(self, query: WindowQuery, makers: Makers, payloads: Payloads) -> None:
        self._query = query.name
        self._key = key_path(query.key)
        self._texts = KeyTexts()
        conditions = [*(plan.where for plan in makers.cells), *(each[1] for each in makers.timed)]
        texts = dict.fromkeys([query.where or "", *conditions])
        filters = {text: event_filter_of(text) for text in texts}
        self._where = filters[query.where or ""]
        wanted = [(plan.path, plan.usable, filters[plan.where]) for plan in makers.cells]
        ranks = {
            at: (plan.by, number, filters[plan.where])
            for at, plan in enumerate(makers.cells)
            if plan.by is not None
        }
        timed = [(path, number, filters[where]) for path, where in makers.timed]
        self._fields = list(dict.fromkeys([*wanted, *ranks.values(), *timed]))
        """The distinct fields to read; several cells may take the value of one field."""
        self._places = [self._fields.index(field) for field in [*wanted, *timed]]
        self._ranks = [(at, self._fields.index(field)) for at, field in ranks.items()]
        """For each cell whose values are ranked, its index and the place of the ranks."""
        self._paths = [plan.path for plan in makers.cells]
        self._aggregates: list[list[str]] = [[] for _ in self._fields]
        """The names of the aggregates that read each field."""
        for name, each in query.outputs.items():
            if each.function == TIME_AVG:
                field = each.path, number, filters[each.where]
                self._aggregates[self._fields.index(field)].append(name)
        for name, (_, cell) in zip(query.of_cells, makers.parts, strict=True):
            if cell != THE_ROW:
                self._aggregates[self._places[cell]].append(name)
                for place in [place for at, place in self._ranks if at == cell]:
                    self._aggregates[place].append(name)
        self._left_out = [LeftOut() for _ in self._fields]
        keys = find_payload_paths(self._key)
        self._is_flat = all(len(path) == 1 for path in (*keys, *self._paths))
        """Whether all fields that `columns` reads are on the first level of the payload."""
        self._blind = self._key is None and not self._fields and self._where is None
        of_events = [plan.path for plan in makers.cells if plan.make is Events]
        read = [*keys, *(path for path, *_ in self._fields if path not in of_events)]
        for text in filter(None, texts):
            read += paths_of_filter(text)
        self._reads_payload = bool(read)
        self._payloads = payloads
        if read:
            payloads.register_paths(read)
        self._events = 0
        """The number of events with a key, of which a field is read."""
        self.unreadable = 0
        self.unkeyed = 0
        self.filtered = 0

    @property
    def skipped(self) -> int:
        """The number of values that aggregates left out."""
        pairs = zip(self._left_out, self._aggregates, strict=True)
        return sum(left_out.count * len(names) for left_out, names in pairs)

    def list_uses(self) -> list[FieldUse]:
        """Return the counts of the values that were left out, for each field."""
        return [
            left_out.to_field_use(
                self._query, names[0], format_path(("payload", *path)), self._events
            )
            for left_out, names, (path, _, _) in zip(
                self._left_out, self._aggregates, self._fields, strict=True
            )
        ]

    def read(self, event: Event) -> tuple[str, Values] | None:
        """Return the key's text and the values, or None if the event has no key.

        The values contain None for each cell that leaves its value out.
        """
        if self._blind:
            return NO_KEY, ()
        payload = event.value
        if not isinstance(payload, dict) and self._reads_payload:
            payload = self._payload_of(event)
        if self._where is not None and not self._where(event, payload):
            self.filtered += 1
            return None
        key = self._texts.of(event.source, payload, self._key)
        if key is None:
            self.unkeyed += 1
            return None
        self._events += 1
        found: list[Any] = []
        for i, (path, usable, where) in enumerate(self._fields):
            if where is not None and not where(event, payload):
                found.append(None)
                continue
            held = at(payload, path)
            value = usable(held)
            if value is None:
                self._left_out[i].take(held, self._events)
            found.append(value)
        values = [found[place] for place in self._places]
        for cell, place in self._ranks:
            if values[cell] is not None:
                rank = found[place]
                values[cell] = None if rank is None else (values[cell], rank)
        return key, tuple(values)

    def columns(self, events: Sequence[Event]) -> dict[str, Columns]:
        """Return the columns of each key, in the order in which the keys first occur.

        All cells must be tallies, so each cell reads a field of its own, and nothing has a
        condition.
        """
        if self._blind:
            columns = Columns(0)
            columns.n = len(events)
            return {NO_KEY: columns}
        found: dict[str, Columns] = {}
        paths, text_of, key_path = self._paths, self._texts.text, self._key
        is_flat, of_source = self._is_flat, key_path == SOURCE_KEY
        is_plain = key_path is not None and not of_source and not is_list(key_path)
        fields: dict[str, Any] = NO_FIELDS
        for event in events:
            payload = event.value
            if not isinstance(payload, dict) and self._reads_payload:
                payload = self._payload_of(event)
            if is_flat:
                fields = payload if isinstance(payload, dict) else NO_FIELDS
            key = NO_KEY
            if key_path is not None:
                if is_plain:
                    text = text_of(fields.get(key_path[0]) if is_flat else at(payload, key_path))
                elif of_source:
                    text = text_of(event.source)
                else:
                    text = self._texts.of(event.source, payload, key_path)
                if text is None:
                    self.unkeyed += 1
                    continue
                key = text
            own = found.get(key)
            if own is None:
                own = found[key] = Columns(len(paths))
            own.n += 1
            self._events += 1
            for i, path in enumerate(paths):
                held = fields.get(path[0]) if is_flat else at(payload, path)
                value = number(held)
                if value is None:
                    self._left_out[i].take(held, self._events)
                else:
                    own.values[i].append(value)
        return found

    def _payload_of(self, event: Event) -> Any:
        payload = self._payloads.of(event)
        if payload is UNREADABLE:
            self.unreadable += 1
        return payload


def event_filter_of(text: str) -> Filter | None:
    """Return the test for a condition, or None if it is empty."""
    if not text:
        return None
    # The language of conditions takes long to import, and most queries have no filter.
    from topology.queries.pattern.compile.filter import compile_filter

    return compile_filter(text)


def paths_of_filter(text: str) -> list[tuple[str, ...]]:
    from topology.queries.pattern.language.filter import paths_read, read_filter

    return paths_read(read_filter(text))
