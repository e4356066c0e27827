"""Read the columns of a CSV or Parquet file for an audit.

Odd values are absent or faulty fields, and texts that are not UTF-8. Times are odd if they are
neither integers nor RFC 3339 in UTC. A part of a CSV file that has odd values is read row by row. A
CSV file with line ends or quotes inside a cell is read row by row as a whole. So is a Parquet file
with odd values. Memory: a part of the file, and the columns.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from typing import IO, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv as arrow_csv

from inorder.contract import MAX_INT64, UNIT_NS
from recordings.audit.by_columns.grouped import Ints
from recordings.audit.columns import MAX_ROWS, Columns
from recordings.audit.counting import MAX_MACHINES
from recordings.audit.from_values import rows_of_file
from recordings.audit.row import AuditRow
from recordings.audit.spool import NONE
from recordings.csv_layout import DELIMITERS
from recordings.file import Form, open_file
from recordings.parquet_rows import MAX_VALUE_BYTES, parquet_file, refuse_size
from recordings.parquet_values import find_instant_columns
from recordings.row import BATCH_ROWS, refuse_missing
from recordings.rows import BYTE_ORDER_MARK, MAX_CELL_CHARS, MAX_LINE_BYTES, csv_lines
from recordings.values import FileMapping, cells_row
from topology.base.outcome import Malformed
from topology.records.checker import SHORT
from topology.records.reasons import WireFault

PART_BYTES: Final = 4 << 20
"""The least number of bytes of a part of a CSV file; it ends with a line."""

_INTEGER: Final = r"\A-?[0-9]{1,19}\z"
_INSTANT: Final = (
    r"\A(19|20)[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?Z\z"
)


class OddError(Exception):
    """The error of values that are to be read row by row."""


def read_columns(path: str, mapping: FileMapping) -> Columns | None:
    """Return the rows of a file as columns, or None if it must be read row by row."""
    needed = mapping.columns()
    with open_file(path, None, needed) as (raw, form):
        table = _Table(mapping)
        try:
            if form is Form.CSV:
                _read_csv(raw, path, table)
            elif form is Form.PARQUET:
                _read_parquet(raw, path, table)
            else:
                return None
        except OddError:
            return None
    return table.columns()


class _Table:
    """The columns that have been read.

    Attributes:
        mapping: The place of each field.
        by: The column of each field.
        rows: The number of rows, with those that could not be read.
    """

    def __init__(self, mapping: FileMapping) -> None:
        self.mapping = mapping
        fields = mapping.fields
        places = {
            "source": fields.source,
            "seq": fields.seq,
            "epoch": fields.epoch,
            "ts": fields.ts,
            "arrival": mapping.arrival,
        }
        self.by = {field: str(at.path[0]) for field, at in places.items() if at is not None}
        self._unit_ns = UNIT_NS[fields.ts_unit]
        self.rows = 0
        self._names: dict[str, int] = {}
        self._faults: list[Malformed] = []
        self._parts: list[tuple[Ints, ...]] = []

    def add(self, columns: dict[str, Any], first: int) -> None:
        """Add the columns of a part, whose first row has this number.

        Raises:
            OddError: A value is odd; nothing was added.
        """
        found = {field: columns[name] for field, name in self.by.items()}
        count = len(found["source"])
        names, codes = _encode_texts(found["source"])
        absent = np.full(count, NONE)
        seq, epoch = (
            _to_counts(found[field]) if field in found else absent for field in ("seq", "epoch")
        )
        if found["ts"].null_count:
            raise OddError
        ts_ns, arrival_ns = (
            _to_times(found[field], self._unit_ns) if field in found else absent
            for field in ("ts", "arrival")
        )
        index = np.array([self._index_of(name) for name in names], np.int64)
        offset = np.arange(first, first + count)
        self._put(index[codes], seq, epoch, ts_ns, arrival_ns, offset)

    def add_rows(self, rows: Iterable[AuditRow | Malformed]) -> None:
        """Add rows that were read one by one."""
        found = []
        for row in rows:
            if isinstance(row, Malformed):
                self._faults.append(row)
            else:
                lacking = (NONE if n is None else n for n in (row.seq, row.epoch))
                arrival_ns = NONE if row.arrival_ns is None else row.arrival_ns
                index = self._index_of(row.source)
                found.append((index, *lacking, row.ts_ns, arrival_ns, row.offset))
        self._put(*np.array(found, np.int64).reshape(-1, 6).T)

    def columns(self) -> Columns:
        none = tuple(np.empty(0, np.int64) for _ in range(6))
        source, seq, epoch, ts_ns, arrival_ns, offset = (
            np.concatenate(each) for each in zip(none, *self._parts, strict=True)
        )
        names, faults = [*self._names], tuple(self._faults)
        return Columns(names, source, seq, epoch, ts_ns, arrival_ns, offset, faults)

    def _index_of(self, name: str) -> int:
        return self._names.setdefault(name, len(self._names))

    def _put(self, *columns: Ints) -> None:
        self._parts.append(columns)
        self.rows += len(columns[0])
        if self.rows + len(self._faults) > MAX_ROWS or len(self._names) > MAX_MACHINES:
            raise OddError


# -- values ----------------------------------------------------------------------------------------


def _encode_texts(column: Any) -> tuple[list[str], Ints]:
    """Return the distinct texts in the order of their first rows, and the index of each row's."""
    if column.null_count or not (_is_text(column) or pa.types.is_integer(column.type)):
        raise OddError
    encoded = column.cast(pa.string()).dictionary_encode()
    names = encoded.dictionary.to_pylist()
    if not all(0 < len(name.encode()) <= SHORT for name in names):
        raise OddError
    return names, encoded.indices.to_numpy().astype(np.int64)


def _is_text(column: Any) -> bool:
    type_ = column.type
    value = type_.value_type if pa.types.is_dictionary(type_) else type_
    return bool(pa.types.is_string(value) or pa.types.is_large_string(value))


def _to_counts(column: Any) -> Ints:
    """Return integers from 0, or NONE where they are absent."""
    if _is_text(column) and not _are_all_set(pc.ascii_is_decimal(column.cast(pa.string()))):
        raise OddError
    numbers = _to_integers(column)
    if np.any((numbers < 0) & (numbers != NONE)):
        raise OddError
    return numbers


def _are_all_set(flags: Any) -> bool:
    """Return whether all flags are set that are not absent."""
    return bool(pc.all(flags, min_count=0).as_py())


def _to_integers(column: Any) -> Ints:
    """Return integers, or NONE where they are absent."""
    if _is_text(column):
        column = column.cast(pa.string())
        if not _are_all_set(pc.match_substring_regex(column, _INTEGER)):
            raise OddError
    elif not pa.types.is_integer(column.type):
        raise OddError
    lacks = column.is_null()
    numbers: Ints = column.cast(pa.int64()).fill_null(NONE).to_numpy(zero_copy_only=False)
    if np.any((numbers == NONE) & ~lacks.to_numpy(zero_copy_only=False)):
        raise OddError
    return numbers


def _to_times(column: Any, unit_ns: int) -> Ints:
    """Return times in ns, or NONE where they are absent."""
    if _is_text(column):
        texts = column.cast(pa.string())
        if _are_all_set(pc.match_substring_regex(texts, _INSTANT)):
            column = texts.cast(pa.timestamp("ns", "UTC"))
    if pa.types.is_timestamp(column.type):
        if column.type.tz is None:
            raise OddError
        column, unit_ns = column.cast(pa.timestamp("ns", column.type.tz)).cast(pa.int64()), 1
    numbers = _to_integers(column)
    lacks = numbers == NONE
    most = MAX_INT64 // unit_ns
    if np.any(~lacks & ((numbers > most) | (numbers < -most))):
        raise OddError
    return np.where(lacks, NONE, np.where(lacks, 0, numbers) * unit_ns)


# -- CSV -------------------------------------------------------------------------------------------


def _read_csv(raw: IO[bytes], path: str, table: _Table) -> None:
    line = raw.readline(MAX_LINE_BYTES)
    head = line.removeprefix(BYTE_ORDER_MARK)
    text = head.decode("ascii", "replace")
    delimiter = next((each for each in DELIMITERS if each in text), ",")
    if not line.endswith(b"\n") or not head.isascii() or not _has_plain_rows(head, delimiter):
        raise OddError
    names = [name.strip() for name in next(csv.reader([text], strict=True, delimiter=delimiter))]
    if len({*names}) < len(names):
        raise OddError
    wanted = [*{*table.by.values()}]
    lines = 1
    for part in _read_parts(raw):
        if not _has_plain_rows(part, delimiter):
            raise OddError
        count = part.count(b"\n") + (not part.endswith(b"\n"))
        try:
            table.add(_parse_csv_part(part, names, wanted, delimiter, count), lines + 1)
        except (OddError, pa.ArrowInvalid, UnicodeDecodeError):
            table.add_rows(rows_of_file(table.mapping, _parse_csv_rows(head, part, path, lines)))
        lines += count


def _read_parts(raw: IO[bytes]) -> Iterator[bytes]:
    """Yield the parts of a file, each of whole lines."""
    while part := raw.read(PART_BYTES):
        if not part.endswith(b"\n"):
            rest = raw.readline(MAX_LINE_BYTES)
            if len(rest) == MAX_LINE_BYTES:
                raise OddError
            part += rest
        yield part


def _has_plain_rows(part: bytes, delimiter: str) -> bool:
    """Return whether each line is a row, and quotes are only around whole cells."""
    if b"\0" in part or part.count(b"\r") != part.count(b"\r\n"):
        return False
    if b'"' not in part:
        return True
    # A line end before the first cell and after the last one stands for the ends of the part.
    bytes_ = np.frombuffer(b"\n" + part + b"\n", np.uint8)
    quotes = np.flatnonzero(bytes_ == ord('"'))
    if len(quotes) % 2:
        return False
    opening, closing = quotes[0::2], quotes[1::2]
    line = np.searchsorted(np.flatnonzero(bytes_ == ord("\n")), quotes)
    ends = np.array([ord(delimiter), ord("\n"), ord("\r")], np.uint8)
    return bool(
        np.all(np.isin(bytes_[opening - 1], ends[:2]))
        and np.all(np.isin(bytes_[closing + 1], ends))
        and np.all(line[0::2] == line[1::2])
    )


def _parse_csv_part(
    part: bytes, names: list[str], wanted: list[str], delimiter: str, count: int
) -> dict[str, Any]:
    if len(part) > MAX_CELL_CHARS:
        raise OddError
    if not part.isascii():
        part.decode()
    found = arrow_csv.read_csv(
        pa.BufferReader(part),
        arrow_csv.ReadOptions(column_names=names, block_size=len(part) + 1, use_threads=False),
        arrow_csv.ParseOptions(delimiter=delimiter, double_quote=False),
        arrow_csv.ConvertOptions(
            include_columns=wanted,
            column_types=dict.fromkeys(wanted, pa.string()),
            null_values=[""],
            strings_can_be_null=True,
        ),
    )
    if found.num_rows != count:
        raise OddError
    return {name: found.column(name).combine_chunks() for name in wanted}


def _parse_csv_rows(head: bytes, part: bytes, path: str, before: int) -> Iterator[Any]:
    """Yield the rows of a part, which `before` lines of the file precede."""
    lines = csv_lines(io.BufferedReader(io.BytesIO(head + part)), path)
    names: list[str] = []
    for number, cells in lines:
        if not names and not isinstance(cells, WireFault):
            names = cells
            continue
        yield cells_row(number - 1 + before, names, cells)


# -- Parquet ---------------------------------------------------------------------------------------


def _read_parquet(raw: IO[bytes], path: str, table: _Table) -> None:
    try:
        file = parquet_file(raw)
        schema = file.schema_arrow
        names = schema.names
        refuse_missing(names, path, table.mapping.columns())
        refuse_size(file.metadata, frozenset(names), path)
        if (
            len({*names}) < len(names)
            or file.metadata.num_rows > MAX_ROWS
            or find_instant_columns(file)
        ):
            raise OddError
        if not all(_is_readable(field.type) for field in schema):
            raise OddError
        type_ = table.mapping.fields.type
        if type_ is not None and not _is_text(schema.field(type_.path[0])):
            raise OddError
        for batch in file.iter_batches(batch_size=BATCH_ROWS * 8):
            batch.validate(full=True)
            for name in names:
                _refuse_long(batch.column(name))
            table.add({name: batch.column(name) for name in names}, table.rows + 1)
    except (pa.ArrowException, ValueError):
        raise OddError from None  # The row by row reader says what is wrong.


def _is_readable(type_: Any) -> bool:
    """Return whether the values of any column of this type can be read."""
    types = pa.types
    if types.is_dictionary(type_):
        type_ = type_.value_type
    checks = (types.is_boolean, types.is_integer, types.is_floating, types.is_decimal)
    texts = (types.is_string, types.is_large_string, types.is_timestamp)
    return any(check(type_) for check in checks + texts)


def _refuse_long(column: Any) -> None:
    if pa.types.is_dictionary(column.type):
        longest = pc.max(pc.binary_length(column.dictionary)).as_py()
        if (longest or 0) > MAX_VALUE_BYTES:
            raise OddError
