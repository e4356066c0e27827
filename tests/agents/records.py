"""What the tests of the shell share: records as the Kafka client gives them, and a batch
that keeps what is put into it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from aiokafka.structs import TopicPartition

from agents.stage.arrival import LOG_APPEND_TIME
from agents.stage.outbox import Headers, Outbox
from agents.stage.partition import Partition
from agents.state.copy_writer import CopyWriter
from agents.state.local_copy import LocalCopy

SOUND: Headers = (("sourceId", b"s1"), ("seqNum", b"7"), ("ts", b"5000000"))


@dataclass(slots=True)
class FakeRecord:
    """The fields of aiokafka's `ConsumerRecord` that are read."""

    offset: int = 0
    headers: Headers = SOUND
    value: bytes | None = b"{}"
    key: bytes | None = b"s1"
    timestamp: int = 6
    timestamp_type: int | None = LOG_APPEND_TIME


@dataclass(frozen=True, slots=True)
class Put:
    """One record as it was put into a batch."""

    key: bytes | None
    value: bytes | None
    timestamp: int | None
    headers: list[tuple[str, bytes | None]]

    def header(self, name: str) -> bytes | None:
        (value,) = [content for known, content in self.headers if known == name]
        return value


class FakeBatch:
    """Holds `room` records."""

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
    """All that was put, by target in the order of its first record."""
    return [(target, put) for target, batches in outbox.take().items() for put in put_into(batches)]


def put_into(batches: Sequence[Any]) -> list[Put]:
    return [put for batch in batches for put in batch.records]


def no_copy(_: TopicPartition, __: str) -> CopyWriter:
    """The local copy of a partition that has none."""

    return CopyWriter(LocalCopy("none", lambda: None, lambda _: None))


async def close(partition: Partition) -> None:
    """Commit what is done, and release the partition."""
    try:
        await partition.settle()
    finally:
        await partition.abandon()
