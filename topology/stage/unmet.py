"""Finds the types and fields that queries require and no event has had, which reveals typos.

If no event has the type for which a pattern waits, or a field that it compares, the pattern is
valid but has no results. `observe` examines the events of the streams. `words` reports what a query
requires and no event had, and what was there instead:

    no event of type `Dor`; types seen: Door, Reading

| kind     | types                                | fields                                        |
|----------|--------------------------------------|-----------------------------------------------|
| window   |                                      | of `key` and `aggregate`                      |
| join     | of its sides                         | of `key` and `values`, on the side's events   |
| pattern  | of the events that must occur        | of WHERE, UNTIL, RETURN, on events of a type  |
| detector | unknown                              | unknown                                       |

Memory: the names in queries, and `SHOWN` types and fields of each stream, cut at `NAME_CHARS`.

Cost: for types, a set per batch. For fields, payloads are decoded until each field has been seen.
These are the payloads of the first `each_batch` events of a batch (None: of all events). If
`each_batch` is set, only the first event of a batch is decoded after `MANY` payloads.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from topology.answer.query.fields import at, strip_payload
from topology.answer.settings import KeyText
from topology.base.event import DATA, Event
from topology.base.paths import format_path, parse_payload_path, quote_if_needed
from topology.base.payload import read_payload
from topology.config import DetectorQuery, JoinQuery, PatternQuery, Topology, WindowQuery
from topology.queries.window.reading import paths_of_filter
from topology.spelling.problem import find_nearest

if TYPE_CHECKING:
    from topology.queries.pattern.tree.syntax import Query

SHOWN: Final = 20
MANY: Final = 5_000
"""After this many payloads of a stream, only one of each batch is decoded, if `each_batch` is set.
"""

NAME_CHARS: Final = 80
"""The maximum number of characters kept of a type or a field, because senders choose them."""

KINDS: Final = ("window", "join", "pattern")
PAYLOAD: Final = "payload"


class RequiredField(NamedTuple):
    """A field that an event in the stream should have; with `types`, an event of one of them."""

    stream: str
    types: tuple[str, ...]
    path: tuple[str, ...]


class Asked(NamedTuple):
    """The requirements of a query.

    The query needs events of one of the `types`, each given with its stream. The paths in `fields`
    do not begin with `payload`.
    """

    streams: frozenset[str]
    types: frozenset[tuple[str, tuple[str, ...]]]
    fields: frozenset[RequiredField]
    is_lasting: bool = True


class _Stream:
    """The types and fields seen in one stream, and the required fields not yet seen (`open`)."""

    def __init__(self) -> None:
        self.events = 0
        self.looked_at = 0
        self.types: dict[str, None] = {}
        self.fields: dict[str, None] = {}
        self.open: list[RequiredField] = []


class Unmet:
    """A check for types and fields that queries require and no event has had.

    `asked` has the requirements by query. `streams` are those whose events may be examined.
    """

    def __init__(
        self,
        asked: Mapping[str, Asked],
        streams: Iterable[str],
        *,
        each_batch: int | None = None,
    ) -> None:
        self._each_batch = each_batch
        self._asked = asked
        self._streams = {name: _Stream() for name in streams}
        self._unmet_types = {
            (stream, each)
            for query in asked.values()
            for stream, types in query.types
            for each in types
        }
        for field in frozenset().union(*(query.fields for query in asked.values())):
            if field.stream in self._streams:
                self._streams[field.stream].open.append(field)

    def observe(self, events: Sequence[Event]) -> None:
        """Record the types and fields of events of any streams and kinds, in any order."""
        by_stream: dict[str, list[Event]] = {}
        for event in events:
            if event.kind == DATA:
                by_stream.setdefault(event.stream, []).append(event)
        for name, taken in by_stream.items():
            if name in self._streams:
                self.observe_stream(name, taken)

    def observe_stream(self, name: str, events: Sequence[Event]) -> None:
        """Record the types and fields of data events; all count as events of this stream."""
        stream = self._streams[name]
        stream.events += len(events)
        for each in sorted({event.type for event in events}):
            self._unmet_types.discard((name, each))
            if len(stream.types) < SHOWN:
                stream.types[_shorten(each)] = None
        if not stream.open:
            return
        each_batch = self._each_batch
        if each_batch is not None and stream.looked_at >= MANY:
            each_batch = 1
        for event in events[:each_batch]:
            payload = read_payload(event.value)
            stream.looked_at += 1
            if isinstance(payload, dict) and len(stream.fields) < SHOWN:
                stream.fields.update((_shorten(str(name)), None) for name in islice(payload, SHOWN))
            stream.open = [
                field for field in stream.open if not has_field(field, event.type, payload)
            ]

    @property
    def queries(self) -> Iterable[str]:
        return self._asked

    def is_lasting(self, query: str) -> bool:
        """Return whether a missing field also affects results, as null does in a window or join."""
        return query in self._asked and self._asked[query].is_lasting

    def words(self, query: str) -> list[str]:
        """Return one text for each requirement of the query that no event has satisfied.

        Before the first event, the list is empty, unless all payloads are examined.
        """
        asked = self._asked.get(query)
        if asked is None:
            return []
        found = [
            f"no event in stream `{name}`"
            for name in sorted(asked.streams)
            if self._each_batch is None and name in self._streams and not self._streams[name].events
        ]
        for name, types in sorted(asked.types):
            stream = self._streams.get(name)
            if stream is None or not stream.events:
                continue
            if all((name, each) in self._unmet_types for each in types):
                wanted = " or ".join(f"`{each}`" for each in types)
                seen = ", ".join(each or "(none)" for each in sorted(stream.types)[:SHOWN])
                found.append(f"no event of type {wanted}{self._of(name)}; types seen: {seen}")
        for field in sorted(asked.fields):
            stream = self._streams.get(field.stream)
            if stream is None or not stream.looked_at or field not in stream.open:
                continue
            if field.types and all((field.stream, t) in self._unmet_types for t in field.types):
                continue  # The missing type was reported already.
            of = f" of type {' or '.join(field.types)}" if field.types else ""
            seen = ", ".join(sorted(stream.fields)[:SHOWN]) or "none"
            none = "no event" if self._each_batch is None else f"none of {stream.looked_at:,}"
            where = f"{none}{of}{self._of(field.stream)}"
            near = find_nearest(field.path[0], stream.fields.keys() - {field.path[0]})
            meant = f" did you mean `{quote_if_needed(near)}`?" if near else ""
            named = format_path(field.path)
            found.append(f"{where} has the field `{named}`;{meant} fields seen: {seen}")
        return found

    def _of(self, stream: str) -> str:
        return f" in stream {stream}" if len(self._streams) > 1 else ""


def _shorten(name: str) -> str:
    return name if len(name) <= NAME_CHARS else f"{name[:NAME_CHARS]}…"


def has_field(field: RequiredField, kind: str, payload: object) -> bool:
    return (not field.types or kind in field.types) and at(payload, field.path) is not None


def make_unmet_check(
    topology: Topology, kinds: Collection[str] = KINDS, *, each_batch: int | None = None
) -> Unmet:
    """Return the check for the queries of these kinds, without detectors.

    A detector does not declare the types and fields that it needs.
    """
    asked = {
        name: requirements_of(query, topology)
        for name, query in topology.queries.items()
        if query.kind in kinds and not isinstance(query, DetectorQuery)
    }
    return Unmet(asked, topology.streams, each_batch=each_batch)


def requirements_of(query: WindowQuery | JoinQuery | PatternQuery, topology: Topology) -> Asked:
    streams = frozenset(topology.read_by(query))
    only = query.streams[0] or topology.unnamed_stream
    if isinstance(query, PatternQuery):
        return pattern_requirements(query.pattern, only)
    if isinstance(query, JoinQuery):
        return _join_requirements(query, topology.unnamed_stream, streams)
    paths = _key_paths(query.key)
    aggregates = query.aggregate.values()
    paths += [path for each in aggregates for path in (each.path, each.by) if path]
    for text in {query.where or "", *(each.where for each in aggregates)} - {""}:
        paths += [(PAYLOAD, *path) for path in paths_of_filter(text)]
    return Asked(streams, frozenset(), frozenset(_fields(only, (), paths)))


def _join_requirements(query: JoinQuery, only: str, streams: frozenset[str]) -> Asked:
    types: list[tuple[str, tuple[str, ...]]] = []
    fields: list[RequiredField] = []
    for name, side in query.sides.items():
        stream = side.stream or only
        kinds = () if side.type is None else (side.type,)
        types += [(stream, kinds)] if kinds else []
        paths = _key_paths(side.key or query.key)
        paths += [each.path for each in query.values.values() if each.side == name]
        fields += _fields(stream, kinds, paths)
    return Asked(streams, frozenset(types), frozenset(fields))


def _key_paths(key: KeyText | None) -> list[tuple[str, ...]]:
    parts = (key,) if isinstance(key, str) else key or ()
    return [path for part in parts if (path := parse_payload_path(part)) is not None]


def _fields(
    stream: str, types: tuple[str, ...], paths: Iterable[tuple[str, ...]]
) -> list[RequiredField]:
    return [RequiredField(stream, types, path) for path in map(strip_payload, paths) if path]


def pattern_requirements(query: Query, stream: str) -> Asked:
    from topology.queries.pattern.tree.syntax import RESERVED, AggregateCall, EventNode, Ref, Same
    from topology.queries.pattern.tree.walk import find_components, find_expressions, walk

    events = [each for each in find_components(query.node) if isinstance(each, EventNode)]
    happens = {each.alias: each.types for each in events}
    must = [each.types for each in events if each.minimum and each.types]
    paths: list[tuple[tuple[str, ...], tuple[str, ...]]] = []
    for part in (each for expr in find_expressions(query) for each in walk(expr)):
        if isinstance(part, Ref | AggregateCall) and part.alias in happens:
            paths.append((happens[part.alias], part.path))
        elif isinstance(part, Same):
            paths += [(types, path) for path in part.paths for types in must]
    fields: list[RequiredField] = []
    for types, path in paths:
        if path and (path[0] == PAYLOAD or path[0] not in RESERVED):  # The field is in the payload.
            fields += _fields(stream, types, [path])
    wanted = frozenset((stream, types) for types in must)
    return Asked(frozenset({stream}), wanted, frozenset(fields), is_lasting=False)
