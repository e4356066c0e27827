"""Rows of a Parquet file, as `cli.recording.rows` tells them; apart, for it needs `files`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO, Any

import orjson
import pyarrow as pa
from pyarrow import parquet

from cli.recording.file import InputError
from cli.recording.row import (
    BATCH_ROWS,
    PAYLOAD,
    TEXT_COLUMNS,
    TIME_COLUMNS,
    Column,
    columns_of,
    in_payload,
    is_known,
    place,
)
from topology.wire.line_reader import Fault, Row


def parquet_rows(raw: IO[bytes], path: str, needed: tuple[str, ...]) -> Iterator[Row]:
    """The rows of an open file; InputError where it is none, or holds what JSON does not."""
    try:
        file = parquet.ParquetFile(raw)
        columns = columns_of(list(file.schema_arrow.names), path, needed)
        columns = [column for column in columns if is_known(column.name)]
        names = [column.name for column in columns]
        for name in names:
            _refuse_type(file.schema_arrow.field(name), path)
        is_instant = "ts" in names and pa.types.is_timestamp(file.schema_arrow.field("ts").type)
        number = 0
        for batch in file.iter_batches(batch_size=BATCH_ROWS):
            table = pa.table({name: _cast(batch, name) for name in names})
            for values in table.to_pylist():
                number += 1
                row = _parquet_row(number, values, columns)
                yield row._replace(ts_is_instant=True) if is_instant else row
    except pa.ArrowException as wrong:
        reason = str(wrong).splitlines()[0][:200]
        raise InputError(f"{path}: cannot be read as Parquet ({reason})") from None


def _parquet_row(number: int, values: dict[str, Any], columns: list[Column]) -> Row:
    found: dict[str, Any] = {}
    fault: Fault | None = None
    for column in columns:
        value = values[column.name]
        if value is None:
            continue
        if column.name == PAYLOAD and isinstance(value, str):
            try:
                value = orjson.loads(value)
            except orjson.JSONDecodeError as wrong:
                detail = f"column `payload` is not JSON: {wrong.msg}; use a struct or JSON text"
                fault = Fault("payload_not_json", detail)
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
    if in_payload(field.name) and not _is_json(field.type):
        remedy = "cast it to a number, text or a struct of these"
        raise InputError(f"{path}: column `{field.name}` of type {field.type} is no JSON; {remedy}")
    if not in_payload(field.name) and pa.types.is_nested(field.type):
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
