"""Opens a file as the input of an audit."""

from __future__ import annotations

import shlex
from itertools import chain, islice
from pathlib import Path
from typing import Final

from cli.audit.source import AuditSource
from cli.mapping_options import MappingOptions
from cli.taken import SAMPLE, take
from cli.topology_file import Refused
from cli.value_format import ValueFormat
from recordings.audit.from_table import columns_of_file
from recordings.audit.from_values import rows_of_file
from recordings.audit.row import ONE_ORDER
from recordings.file import STDIN, InputError
from recordings.values import FileMapping, ValueRow, value_rows

BY_LINES: Final = (
    "no column has arrival times (--arrival): the order of the lines counts as their order of"
    " arrival, and no clock is compared with others"
)


def file_source(
    path: str, options: MappingOptions, value_format: ValueFormat, last: int | None
) -> AuditSource:
    """Open a file, or only the last `last` rows of it, as the input of an audit.

    Raises `InputError` if the file as a whole cannot be read.
    """
    encoding = value_format.encoding_for_file(path)
    needed = _columns(options, path, value_format)
    layout = options.layout()
    rows = value_rows(path, needed=needed, encoding=encoding, layout=layout)
    if last is not None:
        if path == STDIN:
            raise Refused("--last: standard input is read once; write it to a file first")
        again = value_rows(path, needed=needed, encoding=encoding, layout=layout)
        count = sum(1 for _ in again)
        rows = islice(rows, max(0, count - last), None)
    sample = list(islice(rows, SAMPLE))
    if not sample:
        raise InputError(f"{path}: has no rows")
    values = [value for row in sample if (value := row.decode()) is not None]
    if not values and options.source is None:
        raise InputError(
            f"{path}: none of its first {len(sample)} rows has fields; write CSV, Parquet, or one"
            " JSON object per line"
        )
    mapping = take(values, options, on_file=True)
    by = FileMapping(mapping.fields, mapping.arrival, encoding, layout)
    said = [] if mapping.arrival else [BY_LINES]
    return AuditSource(
        Path(path).name if path != STDIN else "standard input",
        mapping,
        rows_of_file(by, chain(sample, rows)),
        ONE_ORDER,
        mapping.arrival is not None,
        [_as_text(row) for row in sample[:3]],
        said,
        value_format.section_of_file(),
        f"inorder audit {shlex.quote(path)}{layout.options()}",
        columns=None if last is not None else columns_of_file(path, by),
    )


def _columns(
    options: MappingOptions, path: str, value_format: ValueFormat
) -> frozenset[str] | None:
    """Return the columns that the options name, which a table must have; None without --source."""
    given = options.find_file_mapping(None, path, value_format) if options.source else None
    return None if given is None else given.columns()


def _as_text(row: ValueRow) -> str:
    if isinstance(row.value, bytes):
        return row.value.decode("utf-8", "replace").strip()
    return str(row.fault.detail if row.fault else row.value)
