"""Read the rows of a Parquet file in the form of `recordings.rows`; this needs the extra `files`.

A file of kilobytes may expand to gigabytes, because Parquet stores a text once for all rows that
have it. So texts stay encoded until their row is read, `PIECE_BYTES` at a time. A column is refused
before it is unpacked if its rows take more than `MAX_VALUE_BYTES` on average, or `MAX_CHUNK_BYTES`
in one group of rows. A text of more than `MAX_VALUE_BYTES` is refused when its row is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO, Any, Final

import orjson
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from recordings.file import InputError
from recordings.row import (
    BATCH_ROWS,
    PAYLOAD,
    TEXT_COLUMNS,
    TIME_COLUMNS,
    Column,
    columns_of,
    is_in_payload,
    is_known,
    place,
)
from topology.records.line_reader import Row
from topology.records.reasons import WireFault, fault_of

MAX_VALUE_BYTES: Final = 64 << 20
MAX_CHUNK_BYTES: Final = 1 << 30
PIECE_BYTES: Final = 16 << 20


def parquet_rows(raw: IO[bytes], path: str, needed: tuple[str, ...]) -> Iterator[Row]:
    """Yield the rows of an open file.

    Raises:
        InputError: The file is not Parquet, or contains values that JSON cannot express.
    """
    try:
        file = parquet_file(raw)
        columns = columns_of(list(file.schema_arrow.names), path, needed)
        columns = [column for column in columns if is_known(column.name)]
        names = [column.name for column in columns]
        for name in names:
            _refuse_type(file.schema_arrow.field(name), path)
        refuse_size(file.metadata, frozenset(names), path)
        is_instant = "ts" in names and pa.types.is_timestamp(file.schema_arrow.field("ts").type)
        number = 0
        for batch in file.iter_batches(batch_size=BATCH_ROWS):
            table = pa.table({name: _cast(batch, name) for name in names})
            for piece in split_table(table, number, path):
                for values in piece.to_pylist():
                    number += 1
                    row = _parquet_row(number, values, columns)
                    yield row._replace(ts_is_instant=True) if is_instant else row
    except pa.ArrowException as wrong:
        reason = str(wrong).splitlines()[0][:200]
        raise InputError(f"{path}: cannot be read as Parquet ({reason})") from None


def parquet_file(raw: IO[bytes]) -> parquet.ParquetFile:
    """Open a Parquet file so that its texts stay encoded, except texts inside other values."""
    schema = parquet.ParquetFile(raw).schema_arrow
    texts = [field.name for field in schema if _is_text(field.type)]
    return parquet.ParquetFile(raw, read_dictionary=texts)


def refuse_size(metadata: Any, names: frozenset[str], path: str) -> None:
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        for at in range(group.num_columns):
            chunk = group.column(at)
            name = chunk.path_in_schema.partition(".")[0]
            size = chunk.total_uncompressed_size
            if name in names and size > min(
                max(group.num_rows, 1) * MAX_VALUE_BYTES, MAX_CHUNK_BYTES
            ):
                raise InputError(
                    f"{path}: `{name}` takes {size} bytes in a group of {group.num_rows} rows;"
                    f" at most {MAX_VALUE_BYTES} are allowed for a value and {MAX_CHUNK_BYTES} for"
                    " a group: write smaller groups"
                )


def split_table(table: Any, before: int, path: str) -> Iterator[Any]:
    """Yield parts of the table with at most `PIECE_BYTES` of text, or of a single row.

    Args:
        table: The rows.
        before: The number of rows of the file before the table.
        path: The name of the file, for messages.
    """
    begin, size = 0, 0
    for at, row_bytes in enumerate(_text_bytes(table, before, path)):
        if size and size + row_bytes > PIECE_BYTES:
            yield table.slice(begin, at - begin)
            begin, size = at, 0
        size += row_bytes
    yield table.slice(begin)


def _text_bytes(table: Any, before: int, path: str) -> list[int]:
    """Return the number of bytes of text in each row."""
    found = [0] * table.num_rows
    for name, column in zip(table.column_names, table.columns, strict=True):
        if not pa.types.is_dictionary(column.type):
            continue
        at = 0
        for chunk in column.chunks:
            lengths = pc.binary_length(chunk.dictionary).to_pylist()
            for index in chunk.indices.to_pylist():
                length = 0 if index is None else lengths[index] or 0
                found[at] += length
                at += 1
                if length > MAX_VALUE_BYTES:
                    raise InputError(
                        f"{path}, row {before + at}: `{name}` has {length} bytes; at most"
                        f" {MAX_VALUE_BYTES} are allowed"
                    )
    return found


def _is_text(type_: Any) -> bool:
    return bool(pa.types.is_string(type_) or pa.types.is_large_string(type_))


def _parquet_row(number: int, values: dict[str, Any], columns: list[Column]) -> Row:
    found: dict[str, Any] = {}
    fault: WireFault | None = None
    for column in columns:
        value = values[column.name]
        if value is None:
            continue
        if column.name == PAYLOAD and isinstance(value, str):
            try:
                value = orjson.loads(value)
            except orjson.JSONDecodeError as wrong:
                fault = fault_of("payload", "not_json", "column `payload`", shown=wrong.msg)
                continue
        place(found, column, value)
    return Row(number, found, fault)


def _cast(batch: Any, name: str) -> Any:
    column = batch.column(name)
    if name in TIME_COLUMNS and pa.types.is_timestamp(column.type):
        return column.cast(pa.timestamp("ns", column.type.tz)).cast(pa.int64())
    if name in TEXT_COLUMNS and pa.types.is_integer(column.type):
        return column.cast(pa.string())
    return column


def _refuse_type(field: Any, path: str) -> None:
    if is_in_payload(field.name) and not _is_json(field.type):
        remedy = "cast it to a number, text or a struct of these"
        raise InputError(f"{path}: column `{field.name}` has type {field.type}, not JSON; {remedy}")
    if not is_in_payload(field.name) and pa.types.is_nested(field.type):
        remedy = "write one value per row"
        raise InputError(f"{path}: column `{field.name}` is of type {field.type}; {remedy}")


def _is_json(type_: Any) -> bool:
    types = pa.types
    if types.is_struct(type_):
        return all(_is_json(field.type) for field in type_)
    if types.is_list(type_) or types.is_large_list(type_) or types.is_dictionary(type_):
        return _is_json(type_.value_type)
    plain = (types.is_boolean, types.is_integer, types.is_floating, types.is_null)
    text = (types.is_string, types.is_large_string)
    return any(check(type_) for check in plain + text)
