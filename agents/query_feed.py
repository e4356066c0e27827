"""Queries that come and go while the stage runs: the compacted topic `queries`.

A record's key is the query's name, its value what would stand under that name in the
topology file, as JSON (`{"pattern": "PATTERN …", "stream": "pitch", "finals": true}`); without a
value the query is removed. A query of the file cannot be taken away or replaced from here. What
is no query is counted and told, and the one before it goes on.

Every process of the stage reads the whole topic, without a group, before it opens a
partition; then it looks every `READ_TIMEOUT_MS`. A partition takes a change between two batches.
The query then counts what starts after the newest event taken by that moment: of those before
nobody knows whether they were kept. That instant is part of the checkpoint, so a restart changes
nothing. One that is removed retracts nothing.

Bounds: `MAX_QUERIES` at a time; more are refused.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, Final

import orjson
from aiokafka import AIOKafkaConsumer, TopicPartition

from agents.brokers import Brokers
from topology.description import QueryConfig, Topology, TopologyError, query_of

log = logging.getLogger(__name__)

READ_TIMEOUT_MS: Final = 200
MAX_READ: Final = 1_000
MAX_QUERIES: Final = 1_000
NAME_BYTES: Final = 249


class QueryFeed:
    """`queries` are those of the file and of the topic together; `version` counts its changes."""

    def __init__(self, brokers: Brokers, topology: Topology) -> None:
        self._brokers = brokers
        self._topology = topology
        self._topic = topology.topics.queries
        self._reading: asyncio.Task[None] | None = None
        self.queries: dict[str, QueryConfig] = dict(topology.queries)
        self.version = 0
        self.refused = 0

    async def start(self, partitions: int) -> None:
        """Read all there is, and go on reading."""
        begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._reading = asyncio.create_task(self._read(partitions, begun))
        await asyncio.wait([begun, self._reading], return_when=asyncio.FIRST_COMPLETED)
        if self._reading.done():
            await self._reading

    async def stop(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait([self._reading])

    def examine(self) -> None:
        """Raises what ended the reading."""
        if self._reading is not None and self._reading.done():
            self._reading.result()

    async def _read(self, count: int, begun: asyncio.Future[None]) -> None:
        async with self._brokers.reader(fetch_max_wait_ms=READ_TIMEOUT_MS) as consumer:
            partitions = [TopicPartition(self._topic, number) for number in range(count)]
            consumer.assign(partitions)
            await consumer.seek_to_beginning(*partitions)
            ends = await consumer.end_offsets(partitions)
            while not await _is_at(consumer, ends):
                await self._take_next(consumer)
            begun.set_result(None)
            while True:
                await self._take_next(consumer)

    async def _take_next(self, consumer: AIOKafkaConsumer) -> None:
        found = await consumer.getmany(timeout_ms=READ_TIMEOUT_MS, max_records=MAX_READ)
        for records in found.values():
            for record in records:
                wrong = self.take(record.key, record.value)
                if wrong:
                    self.refused += 1
                    place = f"{record.topic}/{record.partition} at offset {record.offset}"
                    log.error("%s: no query: %s", place, wrong)

    def take(self, key: bytes | None, value: bytes | None) -> str:
        """A word about a query; what is wrong with it, or nothing."""
        try:
            name = (key or b"").decode()
            document = None if value is None else orjson.loads(value)
        except ValueError as fault:
            return f"the key is no UTF-8 or the value no JSON ({fault})"
        if not name or len(key or b"") > NAME_BYTES:
            return f"its key is no name; write 1 to {NAME_BYTES} bytes"
        if name in self._topology.queries:
            return f"`{name}` is a query of the topology file; choose another name"
        if document is None:
            if self.queries.pop(name, None) is not None:
                self.version += 1
            return ""
        return self._add(name, document)

    def _add(self, name: str, document: Any) -> str:
        if name not in self.queries and len(self.queries) >= MAX_QUERIES:
            return f"{MAX_QUERIES} queries run already; remove one"
        try:
            query = query_of(document, self._topology)
        except TopologyError as refused:
            return str(refused)
        if query.pattern is not None and self._differs(name, query.stream, query.pattern.amend_ns):
            return "it has another LATE AMEND than the other patterns of its stream"
        if self.queries.get(name) != query:
            self.queries[name] = query
            self.version += 1
        return ""

    def _differs(self, name: str, stream: str | None, amend_ns: int) -> bool:
        return any(
            other.pattern is not None
            and other.stream == stream
            and other.pattern.amend_ns != amend_ns
            for known, other in self.queries.items()
            if known != name
        )


async def _is_at(consumer: AIOKafkaConsumer, ends: Mapping[TopicPartition, int]) -> bool:
    for partition, end in ends.items():
        if await consumer.position(partition) < end:
            return False
    return True
