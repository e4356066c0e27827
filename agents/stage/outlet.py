"""Writes a stage's emitted events, results and reports as records of output topics.

The partition of a stream is murmur2(streamId) mod partitions. It is set explicitly, so the record's
key remains the event's. Streams that are joined share a partition, chosen by the name of one of
them.

The side topics `gaps` and `dead` contain JSON (docs/reference/record_formats.md). The side topic
`late` contains the record itself with a header `reason`. A late event that the policy drops is only
counted. A late event that may be a duplicate goes to `late` under every policy. A duplicate is only
counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import orjson
from aiokafka.partitioner import murmur2

from agents.stage.arrival import NS_PER_MS
from agents.stage.outbox import Headers, Outbox
from codec import EventWriter
from codec.face import ORDERED, SEQUENCED, Form, Target, Topic
from inorder.contract import retraction_headers
from topology.base.event import BLOCKED, DATA, DEAD, PROGRESS, UNBLOCKED, WATERMARK, Event
from topology.base.late import MAY_BE_COPY
from topology.base.outcome import Duplicate, Gap, Late, Malformed, Report
from topology.base.result import RETRACT, Finding, Overflow
from topology.config import TopicsConfig
from topology.records.header_writer import HeaderWriter
from topology.records.json_lines import JsonObject, encode_line, make_report_line, make_result_line
from topology.stage.lanes import lane_of, offset_in_lane

POSITIVE: Final = 0x7FFFFFFF
MADE_BY_STAGES: Final = frozenset({BLOCKED, DEAD, PROGRESS, UNBLOCKED, WATERMARK})


def partition_of(stream: str, partitions: int) -> int:
    """Return the partition of a derived topic for a stream, as Java's default partitioner does."""
    return int(murmur2(stream.encode()) & POSITIVE) % partitions


class Outlet:
    """The writer of a stage's events into topics.

    This class writes nothing; it serves a stage that only computes results. The events of such a
    stage are already in its input, and no stage waits for its progress. `put_all` writes many
    events with the active codec; `put` can write any single event.
    """

    def put_all(self, events: Sequence[Event], outbox: Outbox) -> None: ...

    def put(self, event: Event, outbox: Outbox) -> None: ...

    def progress(self, at_ns: int, outbox: Outbox) -> None: ...


class RecordOutlet(Outlet):
    """The writer of each stream's events to its target; `partition` is the input partition."""

    topic: Topic

    def __init__(
        self, writer: HeaderWriter, targets: Mapping[str, Target], partition: int = 0
    ) -> None:
        self._writer = writer
        self._partition = partition
        self._targets = targets
        self._events = EventWriter(Form(self.topic, writer.names), targets, self.put, partition)

    def put_all(self, events: Sequence[Event], outbox: Outbox) -> None:
        self._events.put_all(events, outbox)


class SequencedOutlet(RecordOutlet):
    """The writer of `events.sequenced`: each record with its added headers."""

    topic = SEQUENCED

    def put(self, event: Event, outbox: Outbox) -> None:
        target = self._targets[event.stream]
        if event.kind in MADE_BY_STAGES:
            headers = self._writer.write_control(event, self._partition)
            outbox.add(target, event.source.encode(), None, 0, headers)
            return
        record = event.record
        headers = self._writer.stamp(event, record.headers, self._partition)
        outbox.add(target, record.key, record.value, max(record.timestamp, 0), headers)

    def progress(self, at_ns: int, outbox: Outbox) -> None:
        """Report to all target partitions that everything before `at_ns` has been emitted."""
        for target in sorted(set(self._targets.values())):
            event = Event("", "", 0, 0, 0, at_ns, kind=PROGRESS)
            headers = self._writer.write_control(event, self._partition)
            outbox.add(target, None, None, 0, headers)


class OrderedOutlet(RecordOutlet):
    """The writer of `events.ordered`, an ordered stream for any Kafka consumer.

    Watermarks report the time here, so no progress is written.
    """

    topic = ORDERED

    def put(self, event: Event, outbox: Outbox) -> None:
        target = self._targets[event.stream]
        timestamp_ms = max(event.ref_time_ns // NS_PER_MS, 0)
        if event.kind != DATA:
            if event.kind == WATERMARK:
                headers = self._writer.write_control(event, 0)
                outbox.add(target, event.stream.encode(), None, timestamp_ms, headers)
            return
        record = event.record
        headers = self._writer.write_ordered(event, record.headers)
        outbox.add(target, record.key, record.value, timestamp_ms, headers)


@dataclass(frozen=True, slots=True)
class ResultOutlet:
    """The writer of the results of windows, patterns and joins, as JSON with their id as the key.

    So a compacted topic, or a consumer that upserts, has the latest version of each result. An
    overflow is a control record (`kind: overflow`) with the query's name as its key.

    Attributes:
        topics: The topic of each operator, with its number of partitions.
        tables: The topic of each query that has its own, with its number of partitions. It contains
          results only: a retracted result has no value, and overflows go to the operator's topic.
    """

    topics: Mapping[str, tuple[str, int]]
    tables: Mapping[str, tuple[str, int]]

    def put(self, finding: Finding, outbox: Outbox) -> None:
        topic, partitions = self.topics[finding.found_by]
        line = make_result_line(finding)
        value: bytes | None = encode_line(line)
        headers: Headers = []
        if isinstance(finding, Overflow):
            key, headers = finding.query, [("kind", b"overflow")]
        else:
            key = finding.id
            if finding.query in self.tables:
                topic, partitions = self.tables[finding.query]
                if finding.op == RETRACT:
                    value, headers = None, retraction_headers(line)
        target = (topic, partition_of(key, partitions))
        outbox.add(target, key.encode(), value, max(finding.at_ns // NS_PER_MS, 0), headers)


@dataclass(frozen=True, slots=True)
class SideOutlet:
    """The writer of late events, gaps and dead letters.

    `sources` are the input partitions, by the number of their lane.
    """

    sources: Sequence[Target]
    topics: TopicsConfig
    partitions: Mapping[str, int]
    late: Mapping[str, str]

    def put(self, report: Report, outbox: Outbox) -> None:
        if isinstance(report, Gap):
            gap = make_report_line(report, replayed=False)
            self._add(self.topics.gaps, report.stream, gap, outbox)
        elif isinstance(report, Malformed):
            dead = make_dead_letter(report, self.sources[lane_of(report.offset)])
            self._add(self.topics.dead, report.stream or "", dead, outbox)
        elif isinstance(report, Late):
            self._put_late(report, outbox)
        else:
            # A duplicate is only counted; its original is in the log already.
            assert isinstance(report, Duplicate)

    def _put_late(self, late: Late, outbox: Outbox) -> None:
        event = late.event
        if late.reason not in MAY_BE_COPY and self.late[event.stream] == "drop":
            return
        record = event.record
        headers = [*record.headers, ("reason", late.reason.encode())]
        topic = self.topics.late
        target = (topic, partition_of(event.stream, self.partitions[topic]))
        outbox.add(target, record.key, record.value, max(record.timestamp, 0), headers)

    def _add(self, topic: str, stream: str, document: JsonObject, outbox: Outbox) -> None:
        target = (topic, partition_of(stream, self.partitions[topic]))
        key = (document["source"] or "").encode()
        outbox.add(target, key, orjson.dumps(document), None, [])


def make_dead_letter(dead: Malformed, source: Target) -> JsonObject:
    """Return the report of a dead letter: its topic, partition and offset, but no payload."""
    letter = make_report_line(dead, replayed=False)
    del letter["line"]
    letter["topic"], letter["partition"] = source
    letter["offset"] = offset_in_lane(dead.offset)
    return letter
