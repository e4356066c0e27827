"""Shared by the transport's tests: a handler that records its calls."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any
from unittest.mock import AsyncMock

from aiokafka.structs import TopicPartition
from confluent_kafka import Producer

from agents.kafka.application import Application, build_app, run
from agents.kafka.brokers import Brokers
from agents.kafka.partition_queue import GroupBatch, PartitionGroup, PolledBatch, make_single_group
from cli.local.embedded import PARTITIONS
from tests.waiting import until

PATIENCE_S = 30.0


class Recorder:
    """A handler that records its calls and runs the hooks of the test."""

    wants_ticks = True
    rests = False
    close = AsyncMock()

    def __init__(self, start_at: Mapping[int, int] | None = None) -> None:
        self.start_at = start_at or {}
        self.calls: list[tuple[str, Any]] = []
        self.batches: list[PolledBatch] = []
        self.owned: set[TopicPartition] = set()
        self.reading: set[TopicPartition] = set()
        self.running: set[TopicPartition] = set()
        self.before_assigned: Callable[[], Any] | None = None
        self.before_batch: Callable[[PolledBatch], Any] | None = None
        self.before_revoked: Callable[[], Any] | None = None

    async def on_assigned(
        self, partitions: frozenset[TopicPartition]
    ) -> Mapping[TopicPartition, int]:
        self.calls.append(("assigning", partitions))
        if self.before_assigned is not None:
            await self.before_assigned()
        self.owned |= partitions
        self.calls.append(("assigned", partitions))
        return {p: self.start_at[p.partition] for p in partitions if p.partition in self.start_at}

    def on_reading(self, partitions: frozenset[TopicPartition]) -> None:
        assert partitions <= self.owned, "read, and not ours"
        self.reading |= partitions
        self.calls.append(("reading", partitions))

    together = ()
    group_of = staticmethod(make_single_group)

    def find_far_ahead(self, _: PartitionGroup) -> tuple[()]:
        return ()

    async def on_batch(self, batch: GroupBatch) -> None:
        (only,) = batch.batches
        await self._on_only(only)

    async def _on_only(self, batch: PolledBatch) -> None:
        assert batch.partition in self.owned, "a batch of a partition that is not ours"
        assert batch.partition in self.reading, "a batch before it is read"
        assert batch.partition not in self.running, "two batches of one partition at once"
        self.running.add(batch.partition)
        try:
            if self.before_batch is not None:
                await self.before_batch(batch)
        finally:
            self.running.discard(batch.partition)
        self.batches.append(batch)
        self.calls.append(("batch", batch.partition))

    async def on_revoked(self, partitions: frozenset[TopicPartition]) -> None:
        assert not self.running & partitions, "revoked under a running batch"
        if self.before_revoked is not None:
            await self.before_revoked()
        self.owned -= partitions
        self.reading -= partitions
        self.calls.append(("revoked", partitions))

    def values(self, partition: int) -> list[bytes]:
        return [
            record.value
            for batch in self.batches
            if batch.partition.partition == partition
            for record in batch.records
        ]

    def read(self) -> int:
        return sum(len(batch.records) for batch in self.batches)

    def ticks(self, partition: int) -> list[PolledBatch]:
        return [
            batch
            for batch in self.batches
            if not batch.records and batch.partition.partition == partition
        ]

    def count(self, what: str) -> int:
        return [call for call, _ in self.calls].count(what)

    def has(self, what: str) -> bool:
        return self.count(what) > 0


@contextlib.asynccontextmanager
async def application(
    bootstrap: str, topics: list[str], handler: Recorder, group: str
) -> AsyncIterator[Application]:
    """Run an application for the length of the block, and raise its exception."""
    app, running, stop = begun(bootstrap, topics, handler, group)
    try:
        yield app
    finally:
        stop.set()
        await until(running.done)
        await running


Begun = tuple[Application, asyncio.Task[None], asyncio.Event]
"""An application, its task, and the event that stops it."""


def begun(bootstrap: str, topics: list[str], handler: Recorder, group: str) -> Begun:
    app = build_app(group, Brokers(bootstrap, is_embedded=False), topics, handler)
    stop = asyncio.Event()
    return app, asyncio.create_task(run(app, stop)), stop


@contextlib.asynccontextmanager
async def started(bootstrap: str, topic: str, handler: Recorder) -> AsyncIterator[Begun]:
    """Run an application that reads the topic, and wait at the end until it has ended by itself."""
    app, running, stop = begun(bootstrap, [topic], handler, topic)
    yield app, running, stop
    await until(running.done)
    await running


async def run_to_failure(bootstrap: str, topic: str, handler: Recorder) -> None:
    async with started(bootstrap, topic, handler):
        pass


def produce(bootstrap: str, topic: str, each: int, partitions: int = PARTITIONS) -> None:
    """Produce the values 0, 1, … into each partition."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
    for number in range(each):
        for partition in range(partitions):
            producer.produce(
                topic, b"%d" % number, key=b"k", partition=partition, headers=[("h", b"1")]
            )
    assert producer.flush(PATIENCE_S) == 0


def numbers(first: int, end: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, end)]
