"""Define the tables of a backfill, one for each kind of line, and write their Parquet files.

Every row has `line`, the JSON line that `inorder replay` writes. `position` counts the lines of its
stream and kind from 0. The other columns are the typed fields of the line. Nanoseconds are longs
named `_ns`. Times that people query by are also timestamps in microseconds, rounded down. Nested
values (a payload, values of a window, events of a match) are JSON text. Absent fields are null.
Every long of nanoseconds fits into a timestamp of microseconds, so no time becomes null.

| table         | a row is                                                             |
|---------------|----------------------------------------------------------------------|
| `events`      | an ordered event; `late` if it is out of order                       |
| `gaps`        | a range of missing sequence numbers                                  |
| `late`        | an event that arrived too late to be emitted                         |
| `duplicates`  | a duplicate of an earlier event                                      |
| `dead`        | a line that cannot be used, with the reason                          |
| `windows`     | a window as of `at_ns`; `op` and `revision` show corrections         |
| `matches`     | a match as of `at_ns`, as for windows                                |
| `match_sets`  | all matches that end with one event, as ranges, as for windows       |
| `joins`       | a joined row as of `at_ns`, as for windows                           |
| `overflows`   | an event for which a query had more results than its bound           |

A task writes one file for each table that gets rows, for all its groups. A file for each group
would be expensive if groups are many and small. The files are in a separate folder, and their names
are unique to the task's attempt. The files of a failed attempt are never reported, and are deleted
with the folder. So each row counts once, even if a task is repeated or runs twice at the same time.
The task keeps up to `ROWS` lines of a table, and writes them as one row group.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any, Final, NamedTuple

import orjson
import pyarrow as pa
from pyarrow import fs, parquet

from topology.records.json_lines import JsonObject, encode_line

Lines = Sequence[JsonObject]

TEXT: Final = pa.string()
LONG: Final = pa.int64()
FLAG: Final = pa.bool_()
REAL: Final = pa.float64()
INSTANT: Final = pa.timestamp("us", "UTC")
VERSION: Final = 2
"""The version of the tables' columns; `--resume` refuses tables of another version."""
POSITION: Final = "position"
LINE: Final = "line"
NS_PER_US: Final = 1_000
MARK: Final = "\x1e between two values"
BETWEEN: Final = b"," + orjson.dumps(MARK) + b","


class Column(NamedTuple):
    """A column of a table.

    Attributes:
        name: The name in the table.
        type: The Arrow type.
        key: The key in the line.
        read: A function that converts the values of all lines to those of the column; None if the
            values are stored unchanged.
    """

    name: str
    type: Any
    key: str
    read: Callable[[Sequence[Any]], Sequence[Any]] | None = None

    @property
    def is_nested(self) -> bool:
        return self.read is _json


def _json(values: Sequence[Any]) -> list[Any]:
    """Return the JSON text of each value; None for None."""
    texts = iter(json_texts([value for value in values if value is not None]))
    return [None if value is None else next(texts) for value in values]


def json_texts(values: Sequence[Any]) -> list[bytes]:
    """Return the JSON text of each value, equal to that of `encode_line`.

    All values are written at once, with marks between them, and split at the marks. Writing each
    separately would allocate a large buffer for each value, which takes most of the time. Values
    are still written separately if one is not JSON or contains the mark.
    """
    if not values:
        return []
    marked: list[Any] = [MARK] * (2 * len(values) - 1)
    marked[::2] = values
    try:
        texts = orjson.dumps(marked)[1:-1].split(BETWEEN)
    except TypeError:
        texts = []
    return texts if len(texts) == len(values) else [encode_line(value) for value in values]


def _instants(times_ns: Sequence[int | None]) -> list[int | None]:
    return [None if each is None else each // NS_PER_US for each in times_ns]


def _text(*names: str) -> list[Column]:
    return [Column(name, TEXT, name) for name in names]


def _make_long_columns(**named: str) -> list[Column]:
    return [Column(name, LONG, key) for name, key in named.items()]


def _make_nested_columns(*names: str) -> list[Column]:
    return [Column(name, TEXT, name, _json) for name in names]


def _make_time_column(name: str, key: str) -> Column:
    return Column(name, INSTANT, key, _instants)


def _make_flag_column(name: str) -> Column:
    return Column(name, FLAG, name)


_WHO: Final = [*_text("stream", "source"), *_make_long_columns(epoch="epoch")]
_SEQ: Final = _make_long_columns(seq="seq")
_AT: Final = [*_make_long_columns(at_ns="at"), _make_time_column("at_time", "at")]
_UNORDERED: Final = [*_WHO, *_SEQ, *_text("reason"), *_make_long_columns(input_line="line"), *_AT]
RESULT: Final = [
    *_text("stream", "query", "id", "op"),
    *_make_long_columns(revision="revision"),
    _make_flag_column("final"),
    *_text("confidence"),
    *_make_nested_columns("key"),
    *_make_long_columns(start_ns="start", end_ns="end"),
    _make_time_column("start_time", "start"),
    _make_time_column("end_time", "end"),
]
_VALUES: Final = _make_nested_columns("values")

TABLES: Final[Mapping[str, Sequence[Column]]] = {
    "events": [
        *_WHO,
        *_SEQ,
        *_make_long_columns(ts_ns="ts", ref_ns="ref_time"),
        _make_time_column("ref_time", "ref_time"),
        *_make_long_columns(error_ns="error"),
        *_text("type"),
        *_make_nested_columns("payload"),
        _make_flag_column("late"),
        *_text("reason"),
        *_AT,
    ],
    "gaps": [
        *_WHO,
        *_make_long_columns(first="first", last="last"),
        *_text("reason"),
        *_AT,
        *_make_long_columns(
            known_at_ns="known_at", ts_before_ns="ts_before", ts_after_ns="ts_after"
        ),
    ],
    "late": [*_UNORDERED, *_make_long_columns(by_ns="by")],
    "duplicates": _UNORDERED,
    "dead": [*_UNORDERED, *_text("detail")],
    "windows": [*RESULT, *_VALUES, *_make_nested_columns("low", "high", "expected"), *_AT],
    "matches": [*RESULT, *_make_nested_columns("events"), *_VALUES, *_AT],
    "match_sets": [
        *RESULT,
        *_make_long_columns(count="count"),
        *_make_nested_columns("ranges", "joined"),
        *_AT,
    ],
    "joins": [
        *RESULT,
        *_make_nested_columns("events"),
        *_VALUES,
        Column("probability", REAL, "probability"),
        *_AT,
    ],
    "overflows": [
        *_text("stream", "query"),
        *_make_nested_columns("event"),
        *_make_long_columns(shown="shown"),
        *_AT,
    ],
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
"""The table of each kind of line."""


def schema_of(table: str) -> Any:
    columns = [pa.field(column.name, column.type) for column in TABLES[table]]
    return pa.schema([*columns, pa.field(POSITION, LONG), pa.field(LINE, TEXT)])


def rows_of(table: str, lines: Lines, positions: Sequence[int]) -> Any:
    """Return lines of one kind as an Arrow record batch with the columns of the table."""
    values_of = _make_key_reader(lines)
    columns = []
    for column in TABLES[table]:
        values = values_of(column.key)
        if column.read is not None:
            values = column.read(values)
        columns.append(pa.array(values, column.type))
    columns.append(pa.array(positions, LONG))
    columns.append(pa.array(json_texts(lines), TEXT))
    return pa.record_batch(columns, schema=schema_of(table))


def _make_key_reader(lines: Lines) -> Callable[[str], Sequence[Any]]:
    """Return a function that takes a key and returns its value in each of the lines.

    Lines of one kind share all keys but one or two. The values of shared keys are collected in one
    pass, which is faster than a pass for each key.
    """
    if not lines:
        return lambda _: []
    sizes = [len(line) for line in lines]
    keys = list(lines[sizes.index(min(sizes))])
    try:
        columns = dict(zip(keys, zip(*map(itemgetter(*keys), lines), strict=True), strict=True))
    except KeyError:
        columns = {}
    return lambda key: columns[key] if key in columns else [line.get(key) for line in lines]


ROWS: Final = 16_384
COMPRESSION: Final = "zstd"

Positions = dict[tuple[str | None, str], int]
"""The position of the next line, by stream and table."""


class File(NamedTuple):
    """A written file; `name` is relative to the folder of its table."""

    table: str
    name: str
    rows: int


class Part:
    """A writer of a task's output lines, which it gets in the order in which they are emitted.

    `folder` contains a folder for each table, on the file system `files`. Each file's name begins
    with `name`.
    """

    def __init__(self, files: fs.FileSystem, folder: str, name: str) -> None:
        self._files = files
        self._folder = folder
        self._name = name
        self._lines: dict[str, list[JsonObject]] = {table: [] for table in TABLE_OF.values()}
        self._places: dict[str, list[int]] = {table: [] for table in TABLE_OF.values()}
        self._writers: dict[str, Any] = {}
        self._rows: Counter[str] = Counter()

    def take(self, lines: Lines, positions: Positions) -> None:
        """Write the lines to the files of their tables.

        `positions` has the position of the next line of each stream and table, and is updated.
        """
        for line in lines:
            table = TABLE_OF[line["kind"]]
            at = (line["stream"], table)
            place = positions.get(at, 0)
            positions[at] = place + 1
            held = self._lines[table]
            held.append(line)
            self._places[table].append(place)
            if len(held) >= ROWS:
                self._write(table)

    def close(self) -> list[File]:
        """Close the files, and return those that were written."""
        for table, held in self._lines.items():
            if held:
                self._write(table)
        for writer in self._writers.values():
            writer.close()
        return [File(table, self._name_of(table), rows) for table, rows in self._rows.items()]

    def _name_of(self, table: str) -> str:
        return f"{self._name}-{table}.parquet"

    def _write(self, table: str) -> None:
        lines, self._lines[table] = self._lines[table], []
        places, self._places[table] = self._places[table], []
        writer = self._writers.get(table)
        if writer is None:
            folder = f"{self._folder}/{table}"
            self._files.create_dir(folder, recursive=True)
            writer = self._writers[table] = parquet.ParquetWriter(
                f"{folder}/{self._name_of(table)}",
                schema_of(table),
                filesystem=self._files,
                compression=COMPRESSION,
            )
        writer.write_batch(rows_of(table, lines, places), row_group_size=None)
        self._rows[table] += len(lines)
