"""Read the lines of a recording from a file or from standard input."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import IO, TYPE_CHECKING

from recordings.csv_layout import AS_USUAL, CsvLayout
from recordings.rows import NEEDED, NEEDED_BY_TIME, read_rows
from topology.records.checker import AS_WRITTEN, Reading
from topology.records.line_reader import AT_ONCE, Content, LineReader, Row, split_rows

if TYPE_CHECKING:
    from recordings.values import FileMapping


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


def contents_of(
    path: str,
    values: FileMapping | None,
    reading: Reading,
    layout: CsvLayout,
    *,
    in_bytes: bool = False,
) -> Iterator[Content]:
    """Return the contents of a file in inorder's own form, or read by the mapping `values`.

    With `in_bytes`, the payload of a mapped row is the whole row in bytes.
    """
    if values is None:
        return read_lines(path, reading=reading, layout=layout)
    # Most recordings need no mapping, and its modules take time to import.
    from recordings.values import mapped_rows

    rows = mapped_rows(path, values, reading, in_bytes=in_bytes)
    return lines_of(rows, reading, 1 if in_bytes else AT_ONCE)


def lines_of(rows: Iterable[Row], reading: Reading, at_once: int = AT_ONCE) -> Iterator[Content]:
    """Yield the content of each row; an arrival that is implausibly far ahead is not trusted.

    So many rows as `at_once` are read before the content of the first one is yielded.
    """
    reader = LineReader(reading, judges=True)
    for piece in split_rows(reader.begin(rows), at_once):
        yield from reader.read_many(piece)
