"""Opens a topic as the input of an audit."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import Any, Final

from agents.kafka.brokers import Brokers
from cli.audit.source import AuditSource
from cli.audit.topic import AuditedTopic
from cli.mapping_options import MappingOptions
from cli.taken import SAMPLE, sample_of, take
from cli.value_format import ValueFormat
from recordings.audit.from_values import reading_by, row_of_record
from recordings.audit.row import AuditRow
from recordings.file import InputError
from recordings.near import describe_missing
from topology.base.outcome import Malformed
from topology.records.field_reader import FieldReader

NS_PER_MS: Final = 1_000_000
BY_RECORDS: Final = (
    "the topic has no append time: the order of the records counts as their order of arrival, and"
    " no clock is compared with others"
)
APART: Final = (
    "the records of different partitions have no common order: each partition is judged by itself,"
    " and a plain job's watermark is the lowest of its partitions"
)


def topic_source(
    brokers: Brokers,
    topic: str,
    options: MappingOptions,
    value_format: ValueFormat,
    last: int | None,
    since_ns: int | None,
) -> AuditSource:
    """Open a topic as the input of an audit.

    Raises `InputError` if the topic cannot be read or has no records.
    """
    since_ms = None if since_ns is None else (time.time_ns() - since_ns) // NS_PER_MS
    audited = AuditedTopic(brokers, topic, last, since_ms)
    with ExitStack() as at_fault:
        at_fault.callback(audited.close)
        sample = audited.first(SAMPLE)
        if not sample:
            raise InputError(f"{topic} of {brokers.servers} has no records to audit")
        decode, picking = value_format.decoder(topic)
        mapping = take([sample_of(each, decode)[0] for each in sample], options, on_file=False)
        reading = reading_by(mapping.fields)
        reader = FieldReader(
            mapping.fields,
            decode,
            picking,
            reading=reading,
            topic=topic,
            describe_lack=describe_missing,
        )
        at_fault.pop_all()  # From here on, `_rows` closes `audited`.
    apart = [APART] if audited.order.apart else []
    return AuditSource(
        f"topic {topic}",
        mapping,
        _rows(audited, reader),
        audited.order,
        audited.appends,
        [_as_text(record) for record in sample[:3]],
        [] if audited.appends else [BY_RECORDS, *apart],
        {
            "input": topic,
            **({} if audited.appends else {"arrival": "timestamp"}),
            **value_format.section(topic),
        },
        f"inorder audit --brokers {brokers.servers} --topic {topic}",
        audited.partitions,
    )


def _rows(audited: AuditedTopic, reader: FieldReader) -> Iterator[AuditRow | Malformed]:
    with closing(audited):
        for clock_ns, record in audited.records():
            arrival_ns = clock_ns if audited.appends else None
            yield row_of_record(reader, record, record.timestamp * NS_PER_MS, arrival_ns)


def _as_text(record: Any) -> str:
    return "null" if record.value is None else record.value.decode("utf-8", "replace")
