"""The tables of a backfill: one for each kind of line, and the columns of each.

Every row has `line`, the JSON line that `inorder replay` writes, and `position`, its place, from 0,
among the lines of its stream and kind. The other columns are what the line says, typed: nanoseconds
as longs named `_ns`, beside them a timestamp in microseconds, rounded down, where people query by
time; what is nested (a payload, values of a window, events of a match) as JSON text. What a line
does not say is null; so is a time beyond what a timestamp of microseconds holds nowhere: every long
of nanoseconds is one.

| table         | a row is                                                             |
|---------------|----------------------------------------------------------------------|
| `events`      | an ordered event; `late` where it stands outside of the order         |
| `gaps`        | numbers that are missing                                             |
| `late`        | an event that came too late to be passed on                          |
| `duplicates`  | an event that had been seen                                          |
| `dead`        | a line that cannot be used, and why                                  |
| `windows`     | a window as it stood at `at_ns`: `op` and `revision` tell corrections|
| `matches`     | a match, likewise                                                    |
| `match_sets`  | all matches that end with one event, as ranges, likewise             |
| `joins`       | a joined row, likewise                                               |
| `overflows`   | a query had more to say of an event than it may                      |

"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa

from topology.wire.json_lines import JsonObject, line_json

Lines = Sequence[JsonObject]

TEXT: Final = pa.string()
LONG: Final = pa.int64()
FLAG: Final = pa.bool_()
REAL: Final = pa.float64()
INSTANT: Final = pa.timestamp("us", "UTC")
POSITION: Final = "position"
LINE: Final = "line"
NS_PER_US: Final = 1_000


class Column(NamedTuple):
    """`key`: what it is called in the line."""

    name: str
    type: Any
    key: str
    read: Callable[[Any], Any] | None = None

    @property
    def is_nested(self) -> bool:
        return self.read is _json


def _json(value: Any) -> str | None:
    return None if value is None else line_json(value).decode()


def _instant(time_ns: int | None) -> int | None:
    return None if time_ns is None else time_ns // NS_PER_US


def _text(*names: str) -> list[Column]:
    return [Column(name, TEXT, name) for name in names]


def _long(**named: str) -> list[Column]:
    return [Column(name, LONG, key) for name, key in named.items()]


def _nested(*names: str) -> list[Column]:
    return [Column(name, TEXT, name, _json) for name in names]


def _time(name: str, key: str) -> Column:
    return Column(name, INSTANT, key, _instant)


def _flag(name: str) -> Column:
    return Column(name, FLAG, name)


_WHO: Final = [*_text("stream", "source"), *_long(epoch="epoch")]
_SEQ: Final = _long(seq="seq")
_AT: Final = [*_long(at_ns="at"), _time("at", "at")]
_UNORDERED: Final = [*_WHO, *_SEQ, *_text("reason"), *_long(input_line="line"), *_AT]
_RESULT: Final = [
    *_text("stream", "query", "id", "op"),
    *_long(revision="revision"),
    _flag("final"),
    *_text("confidence"),
    *_nested("key"),
    *_long(start_ns="start", end_ns="end"),
    _time("start_time", "start"),
    _time("end_time", "end"),
]
_VALUES: Final = _nested("values")

TABLES: Final[Mapping[str, Sequence[Column]]] = {
    "events": [
        *_WHO,
        *_SEQ,
        *_long(ts_ns="ts", ref_ns="ref_time"),
        _time("ref_time", "ref_time"),
        *_long(error_ns="error"),
        *_text("type"),
        *_nested("payload"),
        _flag("late"),
        *_text("reason"),
        *_AT,
    ],
    "gaps": [
        *_WHO,
        *_long(first="first", last="last"),
        *_text("reason"),
        *_AT,
        *_long(known_at_ns="known_at", ts_before_ns="ts_before", ts_after_ns="ts_after"),
    ],
    "late": [*_UNORDERED, *_long(by_ns="by")],
    "duplicates": _UNORDERED,
    "dead": [*_UNORDERED, *_text("detail")],
    "windows": [*_RESULT, *_VALUES, *_nested("low", "high", "expected"), *_AT],
    "matches": [*_RESULT, *_nested("events"), *_VALUES, _flag("amended"), *_AT],
    "match_sets": [
        *_RESULT,
        *_long(count="count"),
        *_nested("ranges", "joined"),
        _flag("amended"),
        *_AT,
    ],
    "joins": [
        *_RESULT,
        *_nested("events"),
        *_VALUES,
        Column("probability", REAL, "probability"),
        *_AT,
    ],
    "overflows": [*_text("stream", "query"), *_nested("event"), *_long(shown="shown"), *_AT],
}

TABLE_OF: Final = {
    "event": "events",
    "gap": "gaps",
    "late": "late",
    "duplicate": "duplicates",
    "dead": "dead",
    "window": "windows",
    "match": "matches",
    "match_set": "match_sets",
    "join": "joins",
    "overflow": "overflows",
}
"""By the kind of line."""


def schema_of(table: str) -> Any:
    columns = [pa.field(column.name, column.type) for column in TABLES[table]]
    return pa.schema([*columns, pa.field(POSITION, LONG), pa.field(LINE, TEXT)])


def rows_of(table: str, lines: Lines, positions: Sequence[int]) -> Any:
    """The lines of one kind as a batch of Arrow's."""
    columns = []
    for column in TABLES[table]:
        key, read = column.key, column.read
        values = [line.get(key) for line in lines]
        if read is not None:
            values = [read(value) for value in values]
        columns.append(pa.array(values, column.type))
    columns.append(pa.array(positions, LONG))
    columns.append(pa.array([line_json(line) for line in lines], pa.binary()).cast(TEXT))
    return pa.record_batch(columns, schema=schema_of(table))
