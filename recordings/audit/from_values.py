"""Make rows of an audit from the values that a mapping finds in a file or in a topic's records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from inorder.contract import DEFAULT_STREAM
from recordings.audit.row import AuditRow
from recordings.values import FileMapping, ValueRow
from topology.base.event import NO_EPOCH, Event
from topology.base.outcome import Malformed
from topology.order.reorder.recent import digest_of
from topology.records.checker import Reading
from topology.records.field_reader import NO_HEADERS, FieldReader
from topology.records.mapping import Fields
from topology.records.reasons import WireFault, fault_of


def reading_by(fields: Fields) -> Reading:
    """Return how to read rows: with sequence numbers in some of them, or in none."""
    stream = frozenset({DEFAULT_STREAM})
    reading = Reading(by_time=stream) if fields.seq is None else Reading(mixed=stream)
    return reading if fields.id is None else reading._replace(ids=stream)


def rows_of_file(mapping: FileMapping, rows: Iterable[ValueRow]) -> Iterator[AuditRow | Malformed]:
    """Yield the rows in order; a row that cannot be read is a Malformed with the row's number."""
    reader = mapping.reader(reading_by(mapping.fields))
    arrivals = mapping.arrivals()
    for row in rows:
        if row.fault is not None:
            yield Malformed(0, row.number, *row.fault)
            continue
        arrival_ns = arrivals.of(row.value)
        if isinstance(arrival_ns, WireFault):
            yield Malformed(0, row.number, *arrival_ns)
            continue
        found = reader.read(NO_HEADERS, None, row.value, arrival_ns or 0, offset=row.number)
        if isinstance(found, Event) and not found.is_stamped:
            yield Malformed(0, row.number, *fault_of("ts", "missing", "`--ts`"))
        else:
            yield audit_row(reader, found, arrival_ns, 0)


def audit_row(
    reader: FieldReader, found: Event | Malformed, arrival_ns: int | None, partition: int
) -> AuditRow | Malformed:
    """Return the audit row of a record, from the event or the fault that its mapping found."""
    if isinstance(found, Malformed):
        return Malformed(0, found.offset, found.reason, found.detail, source=found.source)
    seq, epoch = reader.own_seq(found), None if found.epoch == NO_EPOCH else found.epoch
    place = arrival_ns, partition, found.offset
    digest = found.digest
    if seq is not None:
        # A row of columns has its timestamp among them, so no other has the same content.
        digest = digest_of(found) if isinstance(found.value, bytes) else 0
    return AuditRow(found.source, seq, epoch, found.ts_ns, *place, digest)


def row_of_record(
    reader: FieldReader, record: Any, timestamp_ns: int, arrival_ns: int | None
) -> AuditRow | Malformed:
    """Return the row of a topic's record; `timestamp_ns` is the record's own time."""
    found = reader.read(
        record.headers, record.key, record.value, timestamp_ns,
        offset=record.offset, partition=record.partition,
    )  # fmt: skip
    return audit_row(reader, found, arrival_ns, record.partition)
