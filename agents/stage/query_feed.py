"""Queries that come and go while the stage runs: the compacted topic `queries`.

A record's key is the query's name, its value what would stand under that name in the
topology file, as JSON (`{"pattern": "PATTERN …", "stream": "pitch", "finals": true}`); without a
value the query is removed. A query of the file cannot be taken away or replaced from here. What
is no query is counted and logged, and the one before it goes on: it is *set aside* under its name,
with the reason (`set_aside`, `/explain`), until another record of that name comes. Nothing that
somebody writes there keeps a stage from starting, or its records waiting: of each name only the
newest record is read, its text has bounds (`topology.pattern.language.affordable`), and it is read
and compiled in a thread, while the stage goes on.

Every process of the stage reads the whole topic, without a group, before it opens a
partition; then it looks every `READ_TIMEOUT_MS`. A partition takes a change between two batches.
The query then counts what starts after the newest event taken by that moment: of those before
nobody knows whether they were kept. That instant is part of the checkpoint, so a restart changes
nothing. One that is removed retracts nothing.

Bounds: `MAX_QUERIES` at a time, more are refused; `MAX_BYTES` of a record; `MAX_SET_ASIDE` names
that are set aside, beyond these only the number is known; `MAX_AT_ONCE` records before any is read.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

import orjson
from aiokafka import AIOKafkaConsumer, TopicPartition

from agents.kafka.brokers import Brokers
from topology.config import QueryConfig, Topology, TopologyError, query_of
from topology.pattern.compile.scope import Environment
from topology.pattern.language.affordable import too_long, too_much
from topology.pattern.run.compiled import Compiled

log = logging.getLogger(__name__)

READ_TIMEOUT_MS: Final = 200
MAX_READ: Final = 1_000
MAX_QUERIES: Final = 1_000
NAME_BYTES: Final = 249
MAX_BYTES: Final = 16_000
MAX_SET_ASIDE: Final = 1_000
MAX_AT_ONCE: Final = 2_000

TOO_LONG: Final = f"it has more than {MAX_BYTES} bytes; split it in several queries"


class Word(NamedTuple):
    """What a record says: that `name` is this query, or none (and then `wrong` may say why)."""

    name: str
    query: QueryConfig | None = None
    wrong: str = ""
    compiled: Compiled | None = None


class QueryFeed:
    """`queries` are those of the file and of the topic together; `version` counts its changes."""

    def __init__(self, brokers: Brokers, topology: Topology) -> None:
        self._brokers = brokers
        self._topology = topology
        self._topic = topology.topics.queries
        self._reading: asyncio.Task[None] | None = None
        self.queries: dict[str, QueryConfig] = dict(topology.queries)
        self.compiled: dict[str, Compiled] = {}
        """The patterns of the topic, ready to run: one for all partitions, as running changes
        nothing in it."""

        self.version = 0
        self.refused = 0
        self.set_aside: dict[str, str] = {}
        """What cannot be run, by name, with the reason."""

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
                await self._take_next(consumer, ends)
            begun.set_result(None)
            while True:
                await self._take_next(consumer)

    async def _take_next(
        self, consumer: AIOKafkaConsumer, ends: Mapping[TopicPartition, int] | None = None
    ) -> None:
        """What has come; up to the ends, if these are given, and of each name the newest."""
        newest: dict[bytes | None, Any] = {}
        while len(newest) < MAX_AT_ONCE:
            found = await consumer.getmany(timeout_ms=READ_TIMEOUT_MS, max_records=MAX_READ)
            for records in found.values():
                for record in records:
                    newest.pop(record.key, None)
                    newest[record.key] = _cut(record)
            if ends is None or await _is_at(consumer, ends):
                break
        for key, (value, place) in newest.items():
            wrong = self._heed(await asyncio.to_thread(self._read_word, key, value))
            if wrong:
                self.refused += 1
                log.error("%s: no query: %s", place, wrong)

    def take(self, key: bytes | None, value: bytes | None) -> str:
        """A word about a query; what is wrong with it, or nothing."""
        return self._heed(self._read_word(key, value))

    def _read_word(self, key: bytes | None, value: bytes | None) -> Word:
        """Changes nothing, so that it may run in a thread. About 0.1 s at most."""
        name = (key or b"").decode(errors="backslashreplace")
        try:
            (key or b"").decode()
            if value is not None and len(value) > MAX_BYTES:
                return Word(name[:NAME_BYTES], wrong=TOO_LONG)
            document = None if value is None else orjson.loads(value)
        except ValueError as fault:
            wrong = f"the key is no UTF-8 or the value no JSON ({fault})"
            return Word(name[:NAME_BYTES], wrong=wrong)
        if not name or len(key or b"") > NAME_BYTES:
            wrong = f"its key is no name; write 1 to {NAME_BYTES} bytes"
            return Word(name[:NAME_BYTES], wrong=wrong)
        if name in self._topology.queries:
            wrong = f"`{name}` is a query of the topology file; choose another name"
            return Word(name, wrong=wrong)
        if document is None:
            return Word(name)
        try:
            return self._query_of(name, document)
        except TopologyError as refused:
            return Word(name, wrong=str(refused))
        except Exception as failed:  # noqa: BLE001 - whatever somebody wrote: the stage goes on
            return Word(name, wrong=f"it cannot be read ({type(failed).__name__}: {failed})")

    def _query_of(self, name: str, document: Any) -> Word:
        """Compiled too: that takes longest, and nobody waits here."""
        text = document.get("pattern") if isinstance(document, Mapping) else None
        wrong = too_long(text) if isinstance(text, str) else ""
        if wrong:
            return Word(name, wrong=wrong)
        query = query_of(document, self._topology)
        if isinstance(text, str) and query.pattern is not None:
            wrong = too_much(text, query.pattern)
            if wrong:
                return Word(name, wrong=wrong)
            pattern = replace(query.pattern, name=name)
            environment = Environment.of(self._topology.user_functions)
            return Word(name, query, compiled=Compiled(pattern, environment))
        return Word(name, query)

    def _heed(self, word: Word) -> str:
        wrong = word.wrong
        if not wrong and word.query is not None:
            wrong = self._add(word.name, word.query, word.compiled)
        elif not wrong and self.queries.pop(word.name, None) is not None:
            self.compiled.pop(word.name, None)
            self.version += 1
        self.set_aside.pop(word.name, None)
        if wrong and len(self.set_aside) < MAX_SET_ASIDE:
            self.set_aside[word.name] = wrong
        return wrong

    def _add(self, name: str, query: QueryConfig, compiled: Compiled | None) -> str:
        if name not in self.queries and len(self.queries) >= MAX_QUERIES:
            return f"{MAX_QUERIES} queries run already; remove one"
        if self.queries.get(name) != query:
            self.queries[name] = query
            self.compiled.pop(name, None)
            if compiled is not None:
                self.compiled[name] = compiled
            self.version += 1
        return ""


def _cut(record: Any) -> tuple[bytes | None, str]:
    """The value, no longer than to be seen as too long, and where it is."""
    value = record.value if record.value is None else record.value[: MAX_BYTES + 1]
    return value, f"{record.topic}/{record.partition} at offset {record.offset}"


async def _is_at(consumer: AIOKafkaConsumer, ends: Mapping[TopicPartition, int]) -> bool:
    for partition, end in ends.items():
        if await consumer.position(partition) < end:
            return False
    return True
