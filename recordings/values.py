"""Read the rows of any file as values for a mapping, whatever the columns are called.

The value of a JSON line is its bytes. A row of CSV is a dict of texts, without its empty cells. In
the payload, a cell that is a JSON number, with the decimal sign of the mapping, or a JSON boolean
becomes that value. A row of Parquet is
a dict of plain values (`topology.records.values`), and so is a value in Avro or Protobuf
(`recordings.encoded`). `mapped_rows` converts rows of all forms to rows of inorder's own form, with
`ts` and `arrival` in ns.

If an input cannot be read at all, InputError is raised. A row that cannot be read has a fault.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import IO, Any, Final, NamedTuple

import orjson

from codec.values import json
from recordings.csv_layout import AS_USUAL, CsvLayout
from recordings.encoded import FileEncoding, container_values, delimited_values
from recordings.file import Form, open_file
from recordings.near import describe_missing
from recordings.row import refuse_missing
from recordings.rows import csv_lines, json_texts, layout_remedy, refuse_layout
from topology.base.paths import Path
from topology.records.checker import Reading
from topology.records.field_reader import FieldReader
from topology.records.line_reader import LOOKED_AHEAD, Row
from topology.records.mapped_rows import Arrivals, MappedRows
from topology.records.mapping import DecimalSign, Fields
from topology.records.payload import as_json
from topology.records.reasons import WireFault, fault_of
from topology.records.rising_times import RisingTimes
from topology.records.times import SWAP_SIGNS
from topology.records.values import UNDECODABLE, Pick, ValueFault, follow_path
from topology.records.where import Where

_NUMBER: Final = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_MAX_NUMBER_CHARS: Final = 40
OF_OUR_LINES: Final = frozenset({"source", "clock", "payload"})
"""Keys of inorder's own form; a row that has none of them is not a line of that form."""

_BOOLEANS: Final = {"true": True, "false": False}


class ValueRow(NamedTuple):
    """A row of a file.

    Attributes:
        number: The number of the row.
        value: The bytes of a JSON line, or the columns of a row by name.
        fault: The reason why the row cannot be read.
        is_text: Whether the columns are cells of CSV.
        encoded: The bytes that were decoded, if each value has its own.
    """

    number: int
    value: Any
    fault: WireFault | None = None
    is_text: bool = False
    encoded: bytes | None = None

    def payload(self, decimal: DecimalSign = ".") -> object:
        """Return the whole row as JSON; `decimal` is the decimal sign of numbers in cells.

        Raises:
            ValueFault: The row is not JSON.
        """
        if self.is_text:
            return {name: _from_cell(cell, decimal) for name, cell in self.value.items()}
        if not isinstance(self.value, bytes):
            return as_json(self.value)
        try:
            return orjson.loads(self.value)
        except orjson.JSONDecodeError as wrong:
            why = json.odd_number(self.value) or f"{wrong.msg} (column {wrong.colno})"
            detail = f"not JSON: {why}"
            raise ValueFault(UNDECODABLE, detail) from None

    def decode(self) -> dict[str, Any] | None:
        """Return the fields for a mapping, or None if the row has no fields."""
        with suppress(ValueFault):
            value = None if self.fault else decode_row(self.value)
            return value if isinstance(value, dict) else None
        return None

    def in_bytes(self, payload: object) -> bytes:
        """Return the bytes to publish for a row whose payload is `payload`."""
        if self.encoded is not None:
            return self.encoded
        return self.value.strip() if isinstance(self.value, bytes) else orjson.dumps(payload)


def _from_cell(cell: str, decimal: DecimalSign) -> object:
    if cell in _BOOLEANS:
        return _BOOLEANS[cell]
    number = cell if decimal == "." else cell.translate(SWAP_SIGNS)
    if len(cell) <= _MAX_NUMBER_CHARS and _NUMBER.fullmatch(number):
        return orjson.loads(number)
    return cell


def decode_row(value: Any) -> object:
    """Return the value of a `ValueRow` in the form from which a mapping reads fields."""
    return json.decode(value) if isinstance(value, bytes) else value


def make_row_picker(paths: Sequence[Path]) -> Pick:
    """Return a function that picks the values at these paths, cheaply from JSON lines.

    The values equal those of `topology.records.values.picking` of `decode_row`.
    """
    from_line = json.make_pick(paths)

    def pick(value: Any) -> Sequence[object]:
        if isinstance(value, bytes):
            return from_line(value)
        return [follow_path(value, path) for path in paths]

    return pick


def value_rows(
    path: str,
    stdin: IO[bytes] | None = None,
    needed: frozenset[str] | None = frozenset(),
    encoding: FileEncoding | None = None,
    layout: CsvLayout = AS_USUAL,
) -> Iterator[ValueRow]:
    """Yield the rows of a file, or of standard input (`-`).

    Args:
        path: The file, or `-`.
        stdin: The stream to read in place of standard input.
        needed: The columns without which no row is an event. A table must have them, and a
            first line that names them makes the file CSV. None if columns are guessed.
        encoding: The encoding of values that are not text; None if the file itself shows its form.
        layout: The place of the column names of CSV.
    """
    with open_file(path, stdin, (needed if layout == AS_USUAL else None) or frozenset()) as (
        raw,
        form,
    ):
        refuse_layout(path, form, layout)
        if encoding is not None and encoding.decode is not None and form is not Form.AVRO:
            for number, (encoded, value) in enumerate(
                delimited_values(raw, path, encoding.decode), start=1
            ):
                yield _encoded_row(number, value, encoded)
            return
        match Form.AVRO if encoding is not None else form:
            case Form.AVRO:
                reader = None if encoding is None else encoding.reader
                for number, value in enumerate(container_values(raw, path, reader), start=1):
                    yield _encoded_row(number, value)
            case Form.JSON_LINES:
                for number, line in json_texts(raw):
                    fault = line if isinstance(line, WireFault) else None
                    yield ValueRow(number, None if fault else line, fault)
            case Form.CSV:
                yield from _csv_values(raw, path, needed, layout)
            case Form.PARQUET:
                from recordings.parquet_values import parquet_values

                for number, value in enumerate(parquet_values(raw, path, needed), start=1):
                    yield ValueRow(number, value)


def _encoded_row(number: int, value: object, encoded: bytes | None = None) -> ValueRow:
    if isinstance(value, WireFault):
        return ValueRow(number, None, value)
    if isinstance(value, dict):
        return ValueRow(number, value, encoded=encoded)
    return ValueRow(number, None, WireFault(UNDECODABLE, "the value is not a record with fields"))


def _csv_values(
    raw: IO[bytes], path: str, needed: frozenset[str] | None, layout: CsvLayout
) -> Iterator[ValueRow]:
    names: list[str] = []
    remedy = layout_remedy(raw, layout)
    for number, cells in csv_lines(raw, path, layout):
        if names or isinstance(cells, WireFault):
            yield cells_row(number, names, cells)
        else:
            names = cells
            refuse_missing(names, path, needed, remedy)


def cells_row(number: int, names: list[str], cells: list[str] | WireFault) -> ValueRow:
    """Return the row of these cells, or of the reason why they cannot be read."""
    if isinstance(cells, WireFault):
        return ValueRow(number, None, cells)
    value = {name: cell for name, cell in zip(names, cells, strict=True) if cell != ""}
    if all(cell.isascii() or _is_sound(cell) for cell in value.values()):
        return ValueRow(number, value, is_text=True)
    return ValueRow(number, None, fault_of("row", "undecodable", "a cell"))


def _is_sound(cell: str) -> bool:
    try:
        cell.encode()
    except UnicodeEncodeError:
        return False
    return True


# -- by a mapping ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FileMapping:
    """The mapping of a file: where each field of an event is found in a row.

    Attributes:
        fields: The position of each field.
        arrival: The position of the arrival; None if rows do not have it.
        encoding: The encoding, as in `value_rows`.
        layout: The layout, as in `value_rows`.
    """

    fields: Fields
    arrival: Where | None = None
    encoding: FileEncoding | None = None
    layout: CsvLayout = AS_USUAL

    def rows(
        self, path: str, stdin: IO[bytes] | None = None, needed: frozenset[str] | None = frozenset()
    ) -> Iterator[ValueRow]:
        """Yield the rows of a file (`value_rows`)."""
        return value_rows(path, stdin, needed, self.encoding, self.layout)

    def columns(self) -> frozenset[str]:
        """Return the columns that the mapping names."""
        fields = self.fields
        places = (
            fields.source, fields.seq, fields.ts, fields.type, fields.epoch, fields.stream,
            fields.kind, fields.id, self.arrival,
        )  # fmt: skip
        paths = [each.path for each in places if each is not None and each.place == "payload"]
        return frozenset(path[0] for path in paths if path and isinstance(path[0], str))

    def has_values(self, path: str) -> bool:
        """Return whether the rows of the file are values, and not lines of inorder's own form.

        They are if the mapping finds values in the first rows, or if none of these is a line of
        that form. In such lines, which `dump` writes for a foreign topic, `payload` contains the
        value.

        Raises:
            InputError: The file cannot be read.
        """
        named = (self.fields.source, self.fields.ts, self.fields.seq)
        places = [w.path for w in named if w is not None and w.place == "payload" and w.path]
        if not places:
            return False
        are_foreign = are_ours = False
        for row in islice(self.rows(path), LOOKED_AHEAD):
            value = row.decode()
            if value is None:
                continue
            found = [follow_path(value, where) for where in (places[0], self.fields.payload.path)]
            if None not in found and follow_path(value, ("payload", *places[0])) is None:
                return True
            are_foreign = True
            are_ours = are_ours or not OF_OUR_LINES.isdisjoint(value)
        return are_foreign and not are_ours

    def reader(self, reading: Reading) -> FieldReader:
        """Return a reader of each row's value."""
        rising = RisingTimes()
        return FieldReader(
            *(self.fields, decode_row, make_row_picker),
            reading=reading, rising=rising, describe_lack=describe_missing,
        )  # fmt: skip

    def arrivals(self) -> Arrivals:
        """Return a reader of each row's arrival time."""
        return Arrivals(self.arrival, self.fields, make_row_picker)

    def make_row_reader(self, reading: Reading) -> MappedRows:
        """Return a reader of rows in inorder's own form, but for their payload."""
        return MappedRows(self.reader(reading), self.arrivals())


def mapped_rows(
    path: str,
    mapping: FileMapping,
    reading: Reading,
    stdin: IO[bytes] | None = None,
    *,
    in_bytes: bool = False,
) -> Iterator[Row]:
    """Yield the rows in inorder's own form.

    Args:
        path: The file, or `-`.
        mapping: The places of the fields.
        reading: How the rows are read.
        stdin: The stream to read in place of standard input.
        in_bytes: Whether a payload is the whole row in bytes, which is the line itself in JSON.
    """
    mapped = mapping.make_row_reader(reading)
    path_of_payload = mapping.fields.payload.path
    for each in mapping.rows(path, stdin, mapping.columns()):
        if each.fault is not None:
            yield Row(each.number, {}, each.fault)
            continue
        row = mapped.row(each.number, each.value)
        if row.fault is not None:
            yield row
            continue
        try:
            payload = each.payload(mapping.fields.decimal)
            inside = each.in_bytes(payload) if in_bytes else follow_path(payload, path_of_payload)
        except ValueFault as refused:
            yield row._replace(fault=WireFault(refused.reason, refused.detail))
        else:
            yield row._replace(values={**row.values, "payload": inside})
