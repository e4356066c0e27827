"""Reads foreign records and files for `inorder init`, by a mapping that it proposes.

`cli.taken` proposes the mapping, which turns records into the rows of a recording in our own form.
The command shows the mapping, its certainty, and the first three records as read by the mapping.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Final

import click

from cli.mapping_options import FIELD_OPTIONS, MappingOptions
from cli.taken import SAMPLE, Taken, has_own_names, sample_of, take
from inorder import rfc3339
from recordings.audit.from_values import reading_by
from recordings.csv_layout import CsvLayout
from recordings.encoded import FileEncoding
from recordings.near import describe_missing
from recordings.values import FileMapping, ValueRow, mapped_rows, value_rows
from topology.base.outcome import Malformed
from topology.records.field_reader import FieldReader
from topology.records.line_reader import Row
from topology.records.payload import as_json
from topology.records.reasons import WireFault
from topology.records.values import Decode, ValueFault, follow_path

NS_PER_MS: Final = 1_000_000
SHOWN: Final = 3
_DATE: Final = re.compile(r"[0-9]{1,4}[./-][0-9A-Za-z]{1,9}[./-]|[0-9]{8}[Tt ]|[A-Za-z]{3}[, ]")


def print_mapping(mapping: Taken, rows: Iterable[Row]) -> None:
    """Print the mapping, and the first rows that it reads, to standard error."""
    section = mapping.section()["fields"]
    for name in FIELD_OPTIONS:
        if name in mapping.said:
            place = section.get(name, "none")
            click.echo(f"{name + ':':7} {place}  ({mapping.said[name]})", err=True)
    if mapping.fields.ts_format:
        click.echo(f"ts_format: {mapping.fields.ts_format}", err=True)
    if "ts_zone" in mapping.said:
        click.echo(f"ts_zone: {mapping.fields.ts_zone}  ({mapping.said['ts_zone']})", err=True)
    for row in rows:
        click.echo(f"  {_format(row)}", err=True)


def _format(row: Row) -> str:
    if row.fault is not None:
        return f"dead: {row.fault.detail}"
    values = row.values
    number = "no number" if values.get("seq") is None else f"number {values['seq']}"
    ts_ns = values.get("ts")
    at = "no time" if ts_ns is None else rfc3339.format_ns(ts_ns)
    type_ = f"  type {values['type']}" if values.get("type") else ""
    return f"source {values.get('source')}  {number}  {at}{type_}"


# -- a file ----------------------------------------------------------------------------------------


def is_foreign(path: str, encoding: FileEncoding | None, layout: CsvLayout) -> bool:
    """Return whether a file is foreign, which means that its rows are not lines of our own form.

    Rows in our own form count as foreign if their `ts` is a date.
    """
    if encoding is not None:
        return True
    for row in _first(path, encoding, layout):
        value = row.decode()
        if value is None or "clock" in value:
            continue
        ts = value.get("ts", 0)
        return not has_own_names(value) or (isinstance(ts, str) and _DATE.match(ts) is not None)
    return False


def file_rows(
    path: str, options: MappingOptions, encoding: FileEncoding | None
) -> tuple[Taken, Iterator[Row]]:
    """Return the mapping proposed for a file, and the file's rows as read by the mapping."""
    values = [
        value
        for row in _first(path, encoding, options.layout())
        if (value := row.decode()) is not None
    ]
    mapping = take(values, options, on_file=True, otherwise="machine")
    # The survey judges whether each row has a number, so rows without one must be readable.
    reading = reading_by(mapping.fields)
    by = FileMapping(mapping.fields, mapping.arrival, encoding, options.layout())
    return mapping, mapped_rows(path, by, reading)


def _first(path: str, encoding: FileEncoding | None, layout: CsvLayout) -> Iterator[ValueRow]:
    rows = islice(value_rows(path, needed=None, encoding=encoding, layout=layout), SAMPLE)
    return (row for row in rows if row.fault is None)


# -- a topic ---------------------------------------------------------------------------------------


def topic_rows(
    records: Sequence[tuple[int, Any]],
    topic: str,
    decode: Decode,
    options: MappingOptions,
) -> tuple[Taken, list[Row], list[ValueFault]]:
    """Return the mapping proposed for a topic, the rows that it reads, and faults of values.

    Each record is given with its arrival time in ns.
    """
    sample = [sample_of(each, decode) for _, each in records[:SAMPLE]]
    faults = [fault for _, fault in sample if fault is not None]
    mapping = take([each for each, _ in sample], options, on_file=False, otherwise=topic)
    reading = reading_by(mapping.fields)
    reader = FieldReader(
        mapping.fields, decode, reading=reading, topic=topic, describe_lack=describe_missing
    )
    rows = [
        _to_row(number, message, reader, decode, arrival_ns)
        for number, (arrival_ns, message) in enumerate(records, 1)
    ]
    return mapping, rows, faults


def _to_row(number: int, message: Any, reader: FieldReader, decode: Decode, arrival_ns: int) -> Row:
    stamp_ns = message.timestamp * NS_PER_MS
    headers, partition = message.headers, message.partition
    found = reader.read(headers, message.key, message.value, stamp_ns, 0, number, None, partition)
    if isinstance(found, Malformed):
        return Row(number, {}, WireFault(found.reason, found.detail))
    # The proposal has a single stream.
    values = reader.values_of(found) | {"stream": None, "ts": found.ts_ns, "arrival": arrival_ns}
    try:
        values["payload"] = as_json(follow_path(decode(message.value), reader.fields.payload.path))
    except ValueFault:
        values["payload"] = None
    return Row(number, values, ts_is_instant=True)
