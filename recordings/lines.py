"""Read the lines of a recording from a file or from standard input."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import IO

from recordings.csv_layout import AS_USUAL, CsvLayout
from recordings.rows import NEEDED, NEEDED_BY_TIME, read_rows
from topology.wire.checker import AS_WRITTEN, Reading
from topology.wire.line_reader import Content, LineReader, Row


def read_lines(
    path: str,
    stdin: IO[bytes] | None = None,
    reading: Reading = AS_WRITTEN,
    layout: CsvLayout = AS_USUAL,
) -> Iterator[Content]:
    """Yield the lines of a file, or of standard input (`-`), in file order.

    The forms are JSON lines, CSV and Parquet, each also packed by gzip.

    Raises:
        InputError: The input as a whole cannot be read.
    """
    needed = NEEDED_BY_TIME if reading.by_time or reading.mixed else NEEDED
    yield from lines_of(read_rows(path, stdin, needed, layout), reading)


def lines_of(rows: Iterable[Row], reading: Reading) -> Iterator[Content]:
    """Yield the content of each row; an arrival that is implausibly far ahead is not trusted."""
    reader = LineReader(reading, judges=True)
    for row in reader.begun(rows):
        yield reader.read(row)
