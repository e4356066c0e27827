"""Read a CSV or Parquet file as columns for an audit, if that is possible.

This needs numpy and pyarrow, and a file of at least `LEAST_BYTES`, because loading both takes
longer than reading a small file. Other input is read row by row (`recordings.audit.from_values`).
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Final

from recordings.audit.columns import Columns
from recordings.csv_layout import AS_USUAL
from recordings.values import FileMapping
from topology.records.where import Where

LEAST_BYTES: Final = 1 << 20


def columns_of_file(path: str, mapping: FileMapping) -> Columns | None:
    """Return the rows of a file as columns, or None if it must be read row by row.

    Raises:
        InputError: The file as a whole cannot be read.
    """
    if not _is_plain(mapping) or not _is_large(path):
        return None
    if not all(map(find_spec, ("numpy", "pyarrow"))):
        return None
    from recordings.audit.by_columns.read import read_columns

    return read_columns(path, mapping)


def _is_large(path: str) -> bool:
    return Path(path).is_file() and Path(path).stat().st_size >= LEAST_BYTES


def _is_plain(mapping: FileMapping) -> bool:
    """Return whether each field is a column, and no time needs a zone or a form."""
    fields = mapping.fields
    needed = (fields.source, fields.ts)
    others = (fields.seq, fields.epoch, fields.type, mapping.arrival)
    return (
        mapping.encoding is None
        and mapping.layout == AS_USUAL
        and not (
            fields.ts_zone
            or fields.ts_format
            or fields.ts_optional
            or fields.stream
            or fields.kind
            or fields.id
        )
        and all(_is_column(where) for where in needed)
        and all(where is None or _is_column(where) for where in others)
    )


def _is_column(where: Where) -> bool:
    return where.place == "payload" and len(where.path) == 1 and isinstance(where.path[0], str)
