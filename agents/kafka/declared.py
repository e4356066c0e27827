"""Declares the topics that a topology needs, with their settings.

* Input topics and `clock.offsets` use LogAppendTime, because the operators' clock is arrival time.
  An input for which the topology chooses another arrival time has no such setting.
* Derived topics use CreateTime, without the broker's bounds on timestamps and without retention by
  time. A timestamp may be years off. With these bounds or retention, such a timestamp would fail
  the transaction, or make the broker delete the record at once.
* Result topics are compacted by id, so the newest revision of each result remains. In the topic of
  a query with `upsert`, a retracted result has no value, so the topic equals the current table.
* Changelogs are compacted, one for each stage and input topic, and have small segments. Brokers
  never compact the active segment, and a restore reads everything that is not compacted.
* One topic only shows the brokers' clocks (`agents.kafka.broker_times`). It has a
  partition for each broker. Its empty records have no reader, and are soon deleted.
* A stage adds headers to the records that it copies. So derived topics and changelogs accept larger
  records than the input, and no header of a stage makes a record too large.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from agents.kafka.stage_topics import (
    broker_times_topic,
    changelogs_of,
    count_changelog_partitions,
    inputs_of,
    list_working_stages,
)
from topology.config import Topology

FOREVER_MS: Final = str(2**63 - 1)
FRAMING_BYTES: Final = 1 << 16
"""Bytes that the framing of a record may take, in addition to `max_record_bytes`."""

STAMPS_BYTES: Final = 1 << 16
"""Bytes for the headers that stages add, and for a changelog's data about a record."""

ARRIVAL: Final = {"message.timestamp.type": "LogAppendTime"}
DERIVED: Final = {
    "message.timestamp.type": "CreateTime",
    "message.timestamp.before.max.ms": FOREVER_MS,
    "message.timestamp.after.max.ms": FOREVER_MS,
    "retention.ms": "-1",
}
SIDE: Final = {"retention.bytes": str(1 << 30)}
"""Settings of the side topics, which may have no reader: each partition keeps its newest GiB."""

COMPACTED: Final = {"cleanup.policy": "compact"}
TABLE: Final = {**COMPACTED, "delete.retention.ms": "604800000"}
"""Settings of a topic with a query's current table, in which no value means a retracted result.

The records without a value remain for a week, so a program that reads the topic weekly sees all.
"""
SEGMENT_BYTES: Final = 32 << 20
SEGMENT_MS: Final = 600_000
"""Limits on the size and the age of the part of a changelog that is not compacted yet."""

CLOCK: Final = {**ARRIVAL, **COMPACTED, "min.compaction.lag.ms": "604800000"}
"""Settings of the clock feed, which is compacted only after the input's default retention.

A stage that reads old input needs the samples of that time, and not only the last of each source.
"""


BROKER_TIMES: Final = {**ARRIVAL, "retention.ms": "3600000", "segment.ms": "3600000"}


class TopicSpec(NamedTuple):
    """A topic with its settings; with `per_broker` it has at least one partition a broker."""

    name: str
    partitions: int
    config: dict[str, str]
    per_broker: bool = False


def list_needed_topics(topology: Topology) -> list[TopicSpec]:
    """Return every topic that the topology needs, in the order in which events pass through."""
    topics = topology.topics
    largest_read_bytes = topics.max_record_bytes + FRAMING_BYTES
    read = {"max.message.bytes": str(largest_read_bytes)}
    written = {"max.message.bytes": str(largest_read_bytes + STAMPS_BYTES)}
    segments = {
        "segment.bytes": str(max(SEGMENT_BYTES, largest_read_bytes + STAMPS_BYTES)),
        "segment.ms": str(SEGMENT_MS),
        "max.compaction.lag.ms": str(SEGMENT_MS),
    }
    specs: list[TopicSpec] = []

    def add(
        names: Iterable[str], *configs: Mapping[str, str], partitions: int = topics.partitions
    ) -> None:
        config = {key: value for each in configs for key, value in each.items()}
        specs.extend(TopicSpec(name, partitions, config) for name in names)

    streams = topology.streams.values()
    for name in sorted({stream.input for stream in streams}):
        add([name], _arrival(topology, name), read)
    add([topics.clock], CLOCK)
    if not topology.fused:
        add([topics.sequenced], DERIVED, written)
    add(sorted({stream.output for stream in streams}), DERIVED, written)
    add([topics.late, topics.gaps, topics.dead], DERIVED, SIDE, written)
    # Patterns and detectors share a topic.
    add(dict.fromkeys(topology.result_topics.values()), DERIVED, COMPACTED, written)
    add(topology.result_tables.values(), DERIVED, TABLE, written)
    if topics.resend is not None:
        add([topics.resend])
    inputs = {
        topic for stage in list_working_stages(topology) for topic in inputs_of(topology, stage)
    }
    widths = count_changelog_partitions(topology, dict.fromkeys(inputs, topics.partitions))
    for name in changelogs_of(topology):
        add([name], COMPACTED, segments, written, partitions=widths[name])
    shown = {broker_times_topic(topology, stage) for stage in list_working_stages(topology)} - {
        None
    }
    specs.extend(TopicSpec(name, 1, BROKER_TIMES, per_broker=True) for name in shown if name)
    return specs


def _arrival(topology: Topology, topic: str) -> dict[str, str]:
    """Return the timestamp setting of an input; none if the topology chooses the arrival time."""
    return {} if topology.arrival_of(topic)[0] in ("timestamp", "read") else ARRIVAL
