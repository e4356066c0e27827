"""The topics a topology needs.

* Input topics and `clock.offsets` use LogAppendTime: append time is the arrival clock.
* Derived topics use CreateTime, with the broker's bounds on stamps lifted and without
  retention by time: a stamp may be years off, which would fail the transaction or make
  the broker delete the record at once.
* Results are compacted by their ids: the newest revision of each remains. In the topic of a query
  with `upsert` a result that is taken back has no value, so what remains is the table.
* Changelogs are compacted, one for each stage and input topic, in small segments: brokers compact
  no segment that is written to, and a restore reads what is not compacted.
* What a stage writes is what it read and its stamps: derived topics and changelogs take
  larger records than the input does, so no stamp makes a record too large.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from agents.kafka.stage_topics import changelogs_of
from topology.config import Topology

FOREVER_MS: Final = str(2**63 - 1)
FRAMING_BYTES: Final = 1 << 16
"""Room for what frames a record, beyond `max_record_bytes`."""

STAMPS_BYTES: Final = 1 << 16
"""Room for the headers that stages add, and for what a changelog notes of a record."""

ARRIVAL: Final = {"message.timestamp.type": "LogAppendTime"}
DERIVED: Final = {
    "message.timestamp.type": "CreateTime",
    "message.timestamp.before.max.ms": FOREVER_MS,
    "message.timestamp.after.max.ms": FOREVER_MS,
    "retention.ms": "-1",
}
SIDE: Final = {"retention.bytes": str(1 << 30)}
"""The newest GiB of each partition, of what nobody may ever read."""

COMPACTED: Final = {"cleanup.policy": "compact"}
TABLE: Final = {**COMPACTED, "delete.retention.ms": "604800000"}
"""Where a record without a value takes a result back: who reads once in a week misses none."""
SEGMENT_BYTES: Final = 32 << 20
SEGMENT_MS: Final = 600_000
"""A changelog has about so much that is not compacted, and not for longer."""

CLOCK: Final = {**ARRIVAL, **COMPACTED, "min.compaction.lag.ms": "604800000"}
"""Compacted no sooner than the input's default retention: a replay needs the samples of
its time, not the last of each source."""


class TopicSpec(NamedTuple):
    name: str
    partitions: int
    config: dict[str, str]


def declared(topology: Topology) -> list[TopicSpec]:
    """Every topic the topology needs, in order of the flow."""
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

    def add(names: Iterable[str], *configs: Mapping[str, str]) -> None:
        config = {key: value for each in configs for key, value in each.items()}
        specs.extend(TopicSpec(name, topics.partitions, config) for name in names)

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
    add(changelogs_of(topology), COMPACTED, segments, written)
    return specs


def _arrival(topology: Topology, topic: str) -> dict[str, str]:
    """What an input has to stamp: nothing where the topology says itself when records arrive."""
    return {} if topology.arrival_of(topic)[0] in ("timestamp", "read") else ARRIVAL
