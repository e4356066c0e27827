"""Write the Parquet files of a task, one for each table that gets rows, for all its groups.

A file for each group would be expensive if groups are many and small. The files are in a separate
folder, and their names are unique to the task's attempt. The files of a failed attempt are never
reported, and are deleted with the folder. So each row counts once, even if a task is repeated or
runs twice at the same time.

The task keeps up to `ROWS` lines of a table, and writes them as one row group.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Final, NamedTuple

from pyarrow import fs, parquet

from spark_analytics.backfill.kinds import TABLE_OF, Lines, rows_of, schema_of
from topology.wire.json_lines import JsonObject

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
