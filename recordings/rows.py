"""Read the rows of a replay's input in any form, as dictionaries keyed as in JSON lines.

* JSON lines: one object per line. Blank lines are skipped. A file may also be one array of objects.
* CSV: the first line names the columns, separated by commas, semicolons, tabs or bars. An empty
  cell is an absent key. Integers are plain ASCII digits, with an optional minus. The column
  `payload` contains JSON. A column `payload.x` contains a field: JSON if the cell is JSON, else its
  text.
* Parquet: columns by name; null is absent. Times are integers or timestamps. `payload` is JSON text
  or a struct, or there are columns `payload.x`.

A row that cannot be read is a `Row` with a fault, and reading continues. Integers in a payload
beyond 64 bits become floating point numbers, as in most readers of JSON.

Bounds: `MAX_LINE_BYTES`, `MAX_CELL_CHARS`, `BATCH_ROWS`.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from functools import partial
from typing import IO, Any, Final, Protocol

import orjson

from codec.values.json import odd_number
from recordings.csv_layout import AS_USUAL, DELIMITERS, CsvLayout, remedy_for
from recordings.file import OUR_COLUMNS, PEEKED_BYTES, Form, InputError, open_file
from recordings.json_array import array_elements, begins_array
from recordings.row import Column, columns_of, place
from topology.records.line_reader import Row
from topology.records.reasons import WireFault, fault_of

MAX_LINE_BYTES: Final = 64 * 2**20
MAX_CELL_CHARS: Final = 16 * 2**20
PIECE_BYTES: Final = 2**20
"""The largest part of an array that is read at a time."""

MAX_BLANK_LINES: Final = 100
"""The maximum number of blank lines before an array."""

BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


class LineSource(Protocol):
    """A file, or a part of one, that is read line by line."""

    def readline(self, limit: int, /) -> bytes: ...


NEEDED: Final = ("source", "seq")
NEEDED_BY_TIME: Final = ("source",)


def read_rows(
    path: str,
    stdin: IO[bytes] | None = None,
    needed: tuple[str, ...] = NEEDED,
    layout: CsvLayout = AS_USUAL,
) -> Iterator[Row]:
    """Yield the rows of a file, or of standard input (`-`).

    Args:
        path: The file, or `-`.
        stdin: The stream to read in place of standard input.
        needed: The columns without which no row is an event.
        layout: The place of the column names of CSV.

    Raises:
        InputError: The input as a whole cannot be read.
    """
    with open_file(path, stdin, OUR_COLUMNS if layout == AS_USUAL else frozenset()) as (raw, form):
        refuse_layout(path, form, layout)
        yield from rows_in(raw, form, path, needed, layout)


def refuse_layout(path: str, form: Form, layout: CsvLayout) -> None:
    """Raise InputError if a layout is stated for a file that is not CSV."""
    if form is not Form.CSV and layout != AS_USUAL:
        raise InputError(
            f"{path}: is {form.value}, and{layout.options()} is for CSV; leave it out, or name the"
            " file .csv"
        )


def rows_in(
    raw: IO[bytes],
    form: Form,
    path: str,
    needed: tuple[str, ...],
    layout: CsvLayout | None = None,
) -> Iterator[Row]:
    """Yield the rows of an open file of this form; `path` is its name in messages.

    Without a `layout`, no message names the options that state one.
    """
    match form:
        case Form.JSON_LINES:
            yield from _json_rows(json_texts(raw))
        case Form.CSV:
            yield from _csv_rows(raw, path, needed, layout)
        case Form.PARQUET:
            from recordings.parquet_rows import parquet_rows

            yield from parquet_rows(raw, path, needed)
        case Form.AVRO:
            raise InputError(
                f"{path}: is Avro; name its fields: --source NAME --seq NAME --ts NAME"
            )


def json_rows(raw: LineSource, *, begins: bool = True) -> Iterator[Row]:
    """Yield the rows of JSON lines, numbered from 1.

    Args:
        raw: The lines.
        begins: Whether the first line begins a file, and may have a byte order mark.
    """
    return _json_rows(text_lines(raw, begins=begins))


def _json_rows(texts: Iterable[tuple[int, bytes | WireFault]]) -> Iterator[Row]:
    for number, line in texts:
        if isinstance(line, WireFault):
            yield Row(number, {}, line)
            continue
        try:
            values = orjson.loads(line)
        except orjson.JSONDecodeError as wrong:
            detail = odd_number(line) or f"{wrong.msg} (column {wrong.colno})"
            yield Row(number, {}, fault_of("line", "not_json", "the line", shown=detail))
            continue
        if isinstance(values, dict):
            yield Row(number, values)
        else:
            yield Row(number, {}, fault_of("line", "not_object", "the line"))


class _Reread:
    """The first lines of a file, which have been read, and then the rest of it."""

    def __init__(self, taken: list[bytes], rest: LineSource) -> None:
        self._taken = taken
        self._rest = rest

    def readline(self, limit: int, /) -> bytes:
        return self._taken.pop(0) if self._taken else self._rest.readline(limit)


def json_texts(raw: LineSource) -> Iterator[tuple[int, bytes | WireFault]]:
    """Yield the JSON of each record of a whole file, numbered from 1.

    The records are lines, or the elements of one array. Lines that are arrays stay lines.
    """
    taken: list[bytes] = []
    first = _read_next_line(raw, taken).removeprefix(BYTE_ORDER_MARK)
    is_array = begins_array(first)
    if is_array and first.rstrip().endswith(b"]"):
        is_array = not _read_next_line(raw, taken).lstrip().startswith(b"[")
    source = _Reread(taken, raw)
    if is_array:
        yield from array_elements(iter(partial(source.readline, PIECE_BYTES), b""), MAX_LINE_BYTES)
    else:
        yield from text_lines(source)


def _read_next_line(raw: LineSource, taken: list[bytes]) -> bytes:
    """Return the next line that is not blank, and append all lines that were read to `taken`."""
    for _ in range(MAX_BLANK_LINES):
        taken.append(raw.readline(MAX_LINE_BYTES + 1))
        if taken[-1].strip() or not taken[-1]:
            break
    return taken[-1]


def text_lines(raw: LineSource, *, begins: bool = True) -> Iterator[tuple[int, bytes | WireFault]]:
    """Yield the lines that are not blank, numbered from 1; a line that is too long is a fault.

    Args:
        raw: The lines.
        begins: Whether the first line begins a file, and may have a byte order mark.
    """
    number = 0
    while line := raw.readline(MAX_LINE_BYTES + 1):
        number += 1
        if len(line) > MAX_LINE_BYTES:
            _skip_line(raw, line)
            detail = f"more than {MAX_LINE_BYTES} bytes"
            yield number, fault_of("line", "huge", "the line", shown=detail)
            continue
        if number == 1 and begins:
            line = line.removeprefix(BYTE_ORDER_MARK)
        if line.strip():
            yield number, line


def _skip_line(raw: LineSource, line: bytes) -> None:
    while line and not line.endswith(b"\n"):
        line = raw.readline(MAX_LINE_BYTES)


def _csv_rows(
    raw: IO[bytes], path: str, needed: tuple[str, ...], layout: CsvLayout | None
) -> Iterator[Row]:
    columns: list[Column] = []
    remedy = None if layout is None else layout_remedy(raw, layout)
    for number, cells in csv_lines(raw, path, layout or AS_USUAL):
        if isinstance(cells, WireFault):
            yield Row(number, {}, cells)
        elif not columns:
            columns = columns_of(cells, path, needed, remedy)
        else:
            yield _csv_row(number, cells, columns)


class _Lines:
    """The lines of a text, for a reader of CSV.

    A line of more than `MAX_LINE_BYTES` characters raises csv.Error. The iteration can then
    continue with the next line.

    Attributes:
        read: The number of lines that have been read.
    """

    def __init__(self, text: io.TextIOWrapper) -> None:
        self._text = text
        self._again: str | None = None
        self.read = 0

    def first(self) -> str:
        """Return the next line, which will be read again; "" at the end."""
        self._again = next(self, None)
        self.read -= self._again is not None
        return self._again or ""

    def __iter__(self) -> _Lines:
        return self

    def __next__(self) -> str:
        line, self._again = self._again or self._text.readline(MAX_LINE_BYTES + 1), None
        if not line:
            raise StopIteration
        self.read += 1
        if len(line) > MAX_LINE_BYTES:
            while line and not line.endswith("\n"):
                line = self._text.readline(MAX_LINE_BYTES)
            raise csv.Error(f"longer than {MAX_LINE_BYTES} characters")
        return line


def layout_remedy(raw: Any, layout: CsvLayout) -> str | None:
    """Return the options that would fit the beginning of an open CSV file, if others do."""
    head = raw.peek(PEEKED_BYTES)[:PEEKED_BYTES]
    return remedy_for(head, len(head) < PEEKED_BYTES, layout)


def csv_lines(
    raw: IO[bytes], path: str, layout: CsvLayout = AS_USUAL
) -> Iterator[tuple[int, list[str] | WireFault]]:
    """Yield the names of the columns, then the cells of each row, each with its line number.

    A row has as many cells as there are columns. Bytes that are not UTF-8 become lone surrogates.
    """
    text = io.TextIOWrapper(raw, "utf-8-sig", "surrogateescape", newline="")
    lines = _Lines(text)
    try:
        for _ in range(layout.skip_lines):
            next(lines, None)
        first = lines.first()
    except csv.Error as wrong:
        raise InputError(f"{path}: not CSV: the first line is {wrong}; name its columns") from None
    # A CSV reader cannot be given a limit, so the limit of the process is set.
    csv.field_size_limit(MAX_CELL_CHARS)
    delimiter = next((each for each in DELIMITERS if each in first), ",")
    reader = csv.reader(lines, strict=True, delimiter=delimiter)
    try:
        try:
            names = list(layout.header) or [name.strip() for name in next(reader)]
        except (StopIteration, csv.Error):
            message = f"{path}: CSV without a line of column names; write source,seq,ts,… first"
            raise InputError(message) from None
        if layout.header and first:
            _refuse_width(
                path, lines.read + 1, next(csv.reader([first], delimiter=delimiter)), names
            )
        yield lines.read, names
        while True:
            number = lines.read + 1
            try:
                cells = next(reader)
            except StopIteration:
                return
            except csv.Error as wrong:
                yield number, fault_of("row", "not_csv", "the row", shown=str(wrong))
                continue
            if cells and len(cells) != len(names):
                detail = f"{len(cells)} under {len(names)} columns"
                yield number, fault_of("row", "ragged", "the row", shown=detail)
            elif cells:
                yield number, cells
    finally:
        text.detach()


def _refuse_width(path: str, number: int, cells: list[str], names: list[str]) -> None:
    if cells and len(cells) != len(names):
        raise InputError(
            f"{path}: --header names {len(names)} columns, but line {number} has {len(cells)}"
            f" cells; name {len(cells)} columns"
        )


def _csv_row(number: int, cells: list[str], columns: list[Column]) -> Row:
    values: dict[str, Any] = {}
    fault: WireFault | None = None
    for cell, column in zip(cells, columns, strict=True):
        if cell == "":
            continue
        try:
            value = column.read(cell if cell.isascii() else _refuse_surrogates(cell))
        except UnicodeEncodeError:
            fault = fault or fault_of("row", "undecodable", f"column `{column.name}`")
        except orjson.JSONDecodeError as wrong:
            not_json = fault_of("payload", "not_json", "column `payload`", shown=wrong.msg)
            fault = fault or not_json
        else:
            place(values, column, value)
    return Row(number, values, fault)


def _refuse_surrogates(cell: str) -> str:
    cell.encode()
    return cell
