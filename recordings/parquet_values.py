"""Read the rows of a Parquet file with any columns, as plain values (`topology.records.values`)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from typing import IO, Any, Final

import pyarrow as pa

from recordings.file import InputError
from recordings.parquet_rows import parquet_file, refuse_size, split_table
from recordings.row import BATCH_ROWS, refuse_missing
from topology.records.values import Timestamp

NS_PER_US: Final = 1_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def parquet_values(
    raw: IO[bytes], path: str, needed: frozenset[str] | None
) -> Iterator[dict[str, Any]]:
    """Yield the rows of an open file, without their nulls.

    Raises:
        InputError: The file is not Parquet.
    """
    try:
        file = parquet_file(raw)
        schema = file.schema_arrow
        refuse_missing(schema.names, path, needed)
        refuse_size(file.metadata, frozenset(schema.names), path)
        instants = find_instant_columns(file)
        local = {
            field.name: field.type.tz is None and field.name not in instants
            for field in schema
            if pa.types.is_timestamp(field.type)
        }
        plain = {field.name for field in schema if _is_plain(field.type)}
        number = 0
        for batch in file.iter_batches(batch_size=BATCH_ROWS):
            table = pa.table({name: _in_ns(batch, name) for name in schema.names})
            for piece in split_table(table, number, path):
                for values in piece.to_pylist():
                    number += 1
                    yield {
                        name: value
                        if name in plain
                        else Timestamp(value, local[name])
                        if name in local
                        else _plain(value)
                        for name, value in values.items()
                        if value is not None
                    }
    except (pa.ArrowException, ValueError) as wrong:
        reason = str(wrong).splitlines()[0][:200]
        raise InputError(f"{path}: cannot be read as Parquet ({reason})") from None


def find_instant_columns(file: Any) -> set[str]:
    """Return the columns of the old 96-bit type, whose times are in UTC without being marked so."""
    columns = (file.schema.column(at) for at in range(len(file.schema)))
    return {each.path for each in columns if each.physical_type == "INT96"}


def _is_plain(type_: Any) -> bool:
    types = pa.types
    checks = (types.is_boolean, types.is_integer, types.is_floating, types.is_string)
    return any(check(type_) for check in (*checks, types.is_large_string, types.is_decimal))


def _in_ns(batch: Any, name: str) -> Any:
    column = batch.column(name)
    if not pa.types.is_timestamp(column.type):
        return column
    return column.cast(pa.timestamp("ns", column.type.tz)).cast(pa.int64())


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, datetime):
        since = (value if value.tzinfo else value.replace(tzinfo=UTC)) - _EPOCH
        return Timestamp(since // timedelta(microseconds=1) * NS_PER_US, value.tzinfo is None)
    if isinstance(value, date | time | timedelta):
        return str(value)
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return value
    return value
