"""Defines the options that state where an event's fields are found in records of a file or topic.

`mapping_options` adds the options to a command, which gets them as one value, `mapping`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from cli.option_group import option, option_group, options_of
from cli.printable import escape_unprintable
from cli.topology_file import Refused, refusing
from cli.value_format import ValueFormat, encoding_of
from inorder.contract import DEFAULT_STREAM, TimeUnit
from recordings.csv_layout import AS_USUAL, CsvLayout
from recordings.file import InputError
from recordings.plausible import AsRead
from topology.config import StreamConfig, Topology
from topology.records.checker import Reading
from topology.records.mapping import DecimalSign, Fields
from topology.records.time_forms import make_time_form
from topology.records.times import suggest_zone, zone_of
from topology.records.values import follow_path
from topology.records.where import Where, parse_where

if TYPE_CHECKING:
    from recordings.values import FileMapping

UNITS: Final = ("ns", "us", "ms", "s")
MAX_SKIPPED: Final = 10_000
"""The maximum number of lines before the column names."""

FIELD_OPTIONS: Final = ("source", "seq", "ts", "type", "epoch", "stream", "id")
"""The options that state where a field of an event is found."""


def _where_option(name: str, words: str) -> Any:
    return option(f"--{name}", metavar="WHERE", help=words)


@dataclass(frozen=True, slots=True)
class MappingOptions:
    """The given options as text; an option that was not given is None or ""."""

    source: str | None = _where_option(
        "source", "Place of the source's name; in a file, a bare name is a column or key."
    )
    seq: str | None = _where_option(
        "seq", "Place of the sequence number; without it, each source is ordered by its time."
    )
    ts: str | None = _where_option("ts", "Place of the time by the source's clock.")
    type: str | None = _where_option("type", "Place of the type.")
    epoch: str | None = _where_option("epoch", "Place of the epoch.")
    stream: str | None = _where_option("stream", "Place of the stream's name.")
    id: str | None = _where_option(
        "id", "Place of the record's id, by which copies are found without sequence numbers."
    )
    arrival: str | None = _where_option("arrival", "Place of the arrival time, in a file.")
    ts_unit: TimeUnit | None = option(  # noqa: RUF009 - it is a field
        "--ts-unit",
        type=click.Choice(UNITS),
        help="Unit of a time that is a number. [default: ns]",
    )
    ts_zone: str = option(
        "--ts-zone",
        metavar="ZONE",
        default="",
        show_default=False,
        help="Time zone of times without one, such as Europe/Berlin.",
    )
    ts_format: str = option(
        "--ts-format",
        metavar="FORM",
        default="",
        show_default=False,
        help="Form of times that are neither numbers nor ISO 8601: rfc2822, apache, syslog, dotnet,"
        " or a pattern such as '%d.%m.%Y %H:%M:%S'.",
    )
    decimal: DecimalSign | None = option(  # noqa: RUF009 - it is a field
        "--decimal", type=click.Choice((".", ",")), help="Decimal sign of numbers that are text."
    )
    values: bool = option(
        "--values", is_flag=True, help="Read rows as values, by the `fields` of the topology file."
    )

    skip_lines: int = option(
        "--skip-lines",
        type=click.IntRange(0, MAX_SKIPPED),
        metavar="N",
        default=0,
        show_default=False,
        help="In CSV: lines before the one with the column names.",
    )
    header: str = option(
        "--header",
        metavar="NAMES",
        default="",
        show_default=False,
        help="In CSV without column names: the names, such as device,n,time.",
    )

    def __post_init__(self) -> None:
        """Raise `Refused` if the time zone or the form of times does not exist."""
        try:
            zone_of(self.ts_zone)
        except ValueError as wrong:
            named = f"--ts-zone {escape_unprintable(self.ts_zone)}"
            zone = suggest_zone(self.ts_zone, "Europe/Berlin or UTC")
            raise Refused(f"{named}: {wrong}; write {zone}") from None
        if self.ts_format:
            with refusing(ValueError, at=f"--ts-format {escape_unprintable(self.ts_format)}: "):
                make_time_form(self.ts_format)
            if self.ts_unit:
                raise Refused("--ts-unit: is for numbers, but --ts-format is given; leave it out")

    def layout(self) -> CsvLayout:
        """Return the layout of a CSV file; raise `Refused` if a column's name is missing."""
        names = tuple(name.strip() for name in self.header.split(",")) if self.header else ()
        if not all(names):
            raise Refused(
                f"--header {escape_unprintable(self.header)}: a name is empty; write a name each"
            )
        if len(set(names)) < len(names):
            raise Refused(
                f"--header {escape_unprintable(self.header)}: two names are equal; rename one"
            )
        return CsvLayout(self.skip_lines, names)

    def refuse_layout(self) -> None:
        """Raise `Refused` if a layout of CSV is given for a topic."""
        if self.layout() != AS_USUAL:
            raise Refused(f"{self.layout().options().strip()}: is for a file; leave it out")

    def places(self, *, on_file: bool) -> dict[str, Any]:
        """Return where each field is found, as options state; raise `Refused` for a fault."""
        named = {name: getattr(self, name) for name in FIELD_OPTIONS}
        return {name: where_of(name, text, on_file=on_file) for name, text in named.items() if text}

    def arrives(self) -> Where | None:
        """Return where the arrival time is found in a file, or None if no option states it."""
        return None if not self.arrival else where_of("arrival", self.arrival, on_file=True)

    def fields(self, *, on_file: bool) -> Fields | None:
        """Return the mapping, or None if no option names a field; raise `Refused` for a fault."""
        places = self.places(on_file=on_file)
        given = [*places, *(["arrival"] if self.arrival else [])]
        given += [
            name for name in ("ts_unit", "ts_zone", "ts_format", "decimal") if getattr(self, name)
        ]
        if "source" not in places:
            if given:
                option = given[0].replace("_", "-")
                remedy = "name the place of the source"
                if option.startswith("ts-") or option == "decimal":
                    key = option.replace("-", "_")
                    remedy += f", or write `{key}` in the stream of a topology with `fields`"
                raise Refused(f"--{option} needs --source too; {remedy}")
            return None
        return Fields(
            **places,
            ts_unit=self.ts_unit or "ns",
            ts_zone=self.ts_zone,
            ts_format=self.ts_format,
            decimal=self.decimal or ".",
        )

    def find_file_mapping(
        self, topology: Topology | None, path: str, value_format: ValueFormat
    ) -> FileMapping | None:
        """Return the mapping by which the file is read; None if its lines have our own form.

        The mapping comes from these options, or with --values from the topology's `fields` and
        `format`.
        """
        fields, arrival = self.fields(on_file=True), self.arrives()
        encoding = value_format.encoding_for_file(path)
        if fields is None and self.values:
            stream = _find_mapped_stream(topology)
            fields = stream.mapping()
            if stream.fields is not None:
                arrival = replace(self, arrival=stream.fields.arrival).arrives()
            if encoding is None:
                encoding = encoding_of(stream.format, stream.value_schema, path)
        if fields is None:
            if encoding is not None:
                raise Refused(
                    f"--format {encoding.format} needs --source too; name the place of the source"
                )
            return None
        from recordings.values import FileMapping

        numbered = topology is not None and any(
            each.reorder.numbered for each in topology.streams.values()
        )
        if numbered and fields.seq is None:
            raise Refused(
                "--seq is missing: a stream of the topology is ordered by numbers; name where they"
                " are, or write reorder: {rule: time} in the stream"
            )
        return FileMapping(fields, arrival, encoding, self.layout())

    def describe_reading(self, values: FileMapping | None, reading: Reading) -> AsRead:
        """Return how the times of a file are read, by its mapping if it has one."""
        if values is None:
            return AsRead(reading)
        return AsRead(reading, values.fields.ts_unit, option=self.source is not None)

    def with_implied_values(
        self, topology: Topology | None, path: str, form: ValueFormat
    ) -> MappingOptions:
        """Return the options, with `values` set if the file has values for the topology's `fields`.

        Input that can be read only once is not examined.
        """
        by_topology = replace(self, values=True)
        try:
            found = by_topology.find_file_mapping(topology, path, form)
            has_values = found is not None and Path(path).is_file() and found.has_values(path)
        except (Refused, InputError):
            return self
        return by_topology if has_values else self


def where_of(option: str, text: str, *, on_file: bool) -> Where:
    """Return the position in a record that the option states; raise `Refused` for a fault."""
    with refusing(ValueError, at=f"--{option} {text}: "):
        return parse_where(text, option, on_file=on_file)


def reading_of_mapping(values: FileMapping | None) -> Reading:
    """Return the way to read rows without a topology: by time if the mapping names no numbers."""
    numbered = values is None or values.fields.seq is not None
    return Reading() if numbered else Reading(frozenset({DEFAULT_STREAM}))


def reading_of(topology: Topology, values: FileMapping | None) -> Reading:
    """Return the way to read rows for a topology; raise `Refused` for an id that has no use."""
    reading = topology.reading()
    if values is None or values.fields.id is None:
        return reading
    ids = reading.by_time | reading.mixed
    if not ids:
        raise Refused("--id is for records without sequence numbers; leave it out")
    return reading._replace(ids=ids)


def values_at(where: Where, rows: Iterable[Mapping[str, object]], *, on_file: bool) -> list[Any]:
    """Return the value at this position in each decoded record, for `recordings.guess`."""
    path = where.path if on_file else (where.place, *where.path)
    return [follow_path(row, path) for row in rows]


def _find_mapped_stream(topology: Topology | None) -> StreamConfig:
    """Return a stream that has `fields`; raise `Refused` if they differ between streams."""
    if topology is None:
        raise Refused("--values needs the `fields` of a topology; give --topology, or --source")
    mapped = [each for each in topology.streams.values() if each.fields is not None]
    read = {(m.mapping(), m.format, m.value_schema, m.fields and m.fields.arrival) for m in mapped}
    if len(read) != 1:
        found = "no stream has `fields`" if not mapped else "its streams have different `fields`"
        raise Refused(f"--values: {found}; name the places by --source, --seq and --ts")
    return mapped[0]


mapping_options = option_group("mapping", MappingOptions, options_of(MappingOptions))
