"""Rows of an audit from values that a mapping reads: of a file, and of a topic's records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from inorder.contract import DEFAULT_STREAM
from recordings.audit.row import AuditRow
from recordings.values import Arrivals, FileMapping, ValueRow
from topology.model.event import NO_EPOCH, Event
from topology.model.outcome import Malformed
from topology.wire.checker import Reading
from topology.wire.field_reader import NO_HEADERS, FieldReader
from topology.wire.reasons import fault_of
from topology.wire.values import ValueFault


def reading_by(*, numbered: bool) -> Reading:
    """How rows are read that have numbers, all or some of them, or have none."""
    stream = frozenset({DEFAULT_STREAM})
    return Reading(mixed=stream) if numbered else Reading(by_time=stream)


def rows_of_file(mapping: FileMapping, rows: Iterable[ValueRow]) -> Iterator[AuditRow | Malformed]:
    """In the order of lines; what a row cannot say is a Malformed with its number."""
    reader = mapping.reader(reading_by(numbered=mapping.fields.seq is not None))
    arrivals = Arrivals(mapping)
    for row in rows:
        if row.fault is not None:
            yield Malformed(0, row.number, *row.fault)
            continue
        found = reader.read(NO_HEADERS, None, row.value, 0, offset=row.number)
        try:
            arrival_ns = None if mapping.arrival is None else arrivals.of(row.value)
        except ValueFault as wrong:
            yield Malformed(0, row.number, wrong.reason, wrong.detail)
            continue
        if isinstance(found, Event) and not found.is_stamped:
            yield Malformed(0, row.number, *fault_of("ts", "missing", "`--ts`"))
        else:
            yield audit_row(reader, found, arrival_ns, 0)


def audit_row(
    reader: FieldReader, found: Event | Malformed, arrival_ns: int | None, partition: int
) -> AuditRow | Malformed:
    """One record by what its mapping found."""
    if isinstance(found, Malformed):
        return Malformed(0, found.offset, found.reason, found.detail, source=found.source)
    seq, epoch = reader.own_seq(found), None if found.epoch == NO_EPOCH else found.epoch
    return AuditRow(found.source, seq, epoch, found.ts_ns, arrival_ns, partition, found.offset)


def row_of_record(
    reader: FieldReader, record: Any, timestamp_ns: int, arrival_ns: int | None
) -> AuditRow | Malformed:
    """One record of a topic; `timestamp_ns` is its own time."""
    found = reader.read(
        record.headers, record.key, record.value, timestamp_ns,
        offset=record.offset, partition=record.partition,
    )  # fmt: skip
    return audit_row(reader, found, arrival_ns, record.partition)
