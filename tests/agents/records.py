"""Shared by the tests of agents: fake records, a fake batch, and a stage without topics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aiokafka.structs import TopicPartition
from prometheus_client import CollectorRegistry

from agents.kafka.brokers import Brokers
from agents.kafka.log_reader import LogReader
from agents.kafka.partition_queue import End, GroupBatch, PolledBatch
from agents.restore.services import Services
from agents.stage.arrangement import Arrangement, arrange, topics_of
from agents.stage.arrival import LOG_APPEND_TIME
from agents.stage.outbox import Headers, Outbox
from agents.state.copy_writer import CopyWriter
from agents.state.local_copy import LocalCopy
from agents.task.partition import Partition
from agents.watch.metrics.worker import Metrics
from topology.config import Topology, parse

SOUND: Headers = (("sourceId", b"s1"), ("seqNum", b"7"), ("ts", b"5000000"))


@dataclass(slots=True)
class FakeRecord:
    """A stand-in for aiokafka's `ConsumerRecord` with the fields that are read."""

    offset: int = 0
    headers: Headers = SOUND
    value: bytes | None = b"{}"
    key: bytes | None = b"s1"
    timestamp: int = 6
    timestamp_type: int | None = LOG_APPEND_TIME


@dataclass(frozen=True, slots=True)
class Put:
    """A record as it was put into a batch."""

    key: bytes | None
    value: bytes | None
    timestamp: int | None
    headers: list[tuple[str, bytes | None]]

    def header(self, name: str) -> bytes | None:
        (value,) = [content for known, content in self.headers if known == name]
        return value


class FakeBatch:
    """A batch with room for `room` records."""

    def __init__(self, room: int = 1_000) -> None:
        self.room = room
        self.records: list[Put] = []
        self.closed = False

    def append(
        self, *, key: bytes | None, value: bytes | None, timestamp: int | None, headers: Headers
    ) -> bool:
        assert not self.closed
        if len(self.records) == self.room:
            return False
        self.records.append(Put(key, value, timestamp, list(headers)))
        return True

    def close(self) -> None:
        self.closed = True


def taken(outbox: Outbox) -> list[tuple[tuple[str, int], Put]]:
    """Take all records of the outbox, grouped by target in the order of the first records."""
    return [(target, put) for target, batches in outbox.take().items() for put in put_into(batches)]


def put_into(batches: Sequence[Any]) -> list[Put]:
    return [put for batch in batches for put in batch.records]


def batch_of(source: TopicPartition, records: list[Any], end: End) -> GroupBatch:
    """Return a poll of a task that reads one partition."""
    return GroupBatch(source, [PolledBatch(source, records, end)])


def no_copy(_: TopicPartition, __: str) -> CopyWriter:
    """Return a writer for a partition that has no local copy."""

    return CopyWriter(LocalCopy("none", lambda: None, lambda _: None))


def services_of(stage: str, delivery: Any, **more: Any) -> Services:
    """Return a partition's services, without brokers and without a local copy."""
    logs = LogReader(Brokers("nowhere:1", is_embedded=False), "group", {})
    return Services(logs, Metrics(CollectorRegistry(), stage), lambda _: delivery, no_copy, **more)


async def close(partition: Partition) -> None:
    """Commit all finished work, and release the partition."""
    try:
        await partition.settle()
    finally:
        await partition.abandon()


def arranged(
    topology: Topology | str,
    stage: str | int = 0,
    partitions: int = 1,
    others: Mapping[str, int] | None = None,
    masters: tuple[bytes, ...] = (),
) -> Arrangement:
    """Arrange the stage of this name, or at this place of the chain.

    Each topic has `partitions` partitions, but those in `others` have their own counts.
    """
    known = parse(topology) if isinstance(topology, str) else topology
    by_name = {each.name: each for each in known.stages}
    chosen = by_name[stage] if isinstance(stage, str) else known.stages[stage]
    counts = dict.fromkeys(topics_of(known, chosen), partitions) | dict(others or {})
    return arrange(known, chosen, counts, masters)
