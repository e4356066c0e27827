"""Read input topics up to their current ends, as lines of `inorder replay`, sorted by arrival.

Each partition has its own arrival clock (agents.stage.arrival), as in a stage. The lines of several
partitions come in the order (arrival, topic, partition, offset), but clock lines precede all other
lines of the same arrival. Each line of an input topic has `topic`, `partition` and `offset`, by
which a replay keeps the partitions apart (`recordings.laned`). Only committed records are read;
nothing is written, and no group is joined. Memory: one fetch of each partition.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator, Collection, Iterable
from typing import TYPE_CHECKING, Any, Final

from agents.stage.arrival import ArrivalClock, make_arrival_clock, why_unreadable
from recordings.topic_lines import TopicLines
from topology.config import Topology
from topology.records.json_lines import JsonObject

if TYPE_CHECKING:
    from aiokafka import AIOKafkaConsumer, TopicPartition

    from agents.kafka.brokers import Brokers

READ_TIMEOUT_MS: Final = 500
STALLED_TIMEOUT_S: Final = 30.0


class DumpRefused(Exception):
    """The error of a topic that cannot be dumped; the message says what to do."""


class DumpStalled(Exception):
    """The error of brokers that do not deliver records that they report."""


class _Part:
    """A partition of a dumped topic, and the lines of its records that are not yielded yet."""

    def __init__(
        self,
        source: TopicPartition,
        end: int,
        is_clock: bool,
        lines: TopicLines,
        clock: ArrivalClock,
    ) -> None:
        self.source = source
        self.end = end
        self.clock = clock
        self.lines: deque[JsonObject] = deque()
        self._is_clock = is_clock
        self._of = lines

    @property
    def order(self) -> tuple[int, bool, str, int]:
        source = self.source
        return self.lines[0]["arrival"], not self._is_clock, source.topic, source.partition

    async def take(self, records: Collection[Any]) -> None:
        await self._of.await_schemas(records)
        where = {} if self._is_clock else self.source._asdict()
        lines = (self._of.line(record, self.clock) for record in records)
        self.lines.extend({**line, **where} for line in lines if line is not None)


def topics_with_clocks(topology: Topology, topics: Iterable[str]) -> list[str]:
    """Return these input topics, and the clock topic if one of their streams syncs."""
    named = [*topics]
    streams = [each for each in topology.streams.values() if each.input in named]
    synced = any(each.clock.sync != "none" for each in streams)
    return [*named, topology.topics.clock] if synced else named


async def dump(
    brokers: Brokers, topology: Topology, topics: Iterable[str], masters: tuple[bytes, ...]
) -> AsyncGenerator[JsonObject, None]:
    """Yield the lines of input topics up to their current ends.

    Args:
        brokers: The brokers.
        topology: The topology that reads the topics.
        topics: The input topics.
        masters: The master keys of signed streams.

    Raises:
        DumpRefused: A topic is absent, or its records have no arrival times.
        DumpStalled: A topic cannot be read.
    """
    from aiokafka import TopicPartition

    topics = [*topics]
    partitions = await asyncio.to_thread(
        brokers.count_partitions, topics_with_clocks(topology, topics)
    )
    for name, count in partitions.items():
        if not count:
            raise DumpRefused(
                f"{brokers.servers} has no topic {name}; run `inorder topics create` first"
            )
    lines = TopicLines(topology, topics, masters)
    sources = [TopicPartition(name, at) for name, n in partitions.items() for at in range(n)]
    async with brokers.reader() as reader:
        reader.assign(sources)
        ends = await reader.end_offsets(sources)
        await reader.seek_to_beginning(*sources)
        parts = [
            _Part(
                source,
                ends[source],
                source.topic == topology.topics.clock,
                lines,
                make_arrival_clock(topology, source.topic, embedded=brokers.is_embedded),
            )
            for source in sources
        ]
        while parts := [part for part in parts if await _read_until_line(reader, part)]:
            least = min(parts, key=_order)
            if least.clock.without_append_time and not brokers.is_embedded:
                without = why_unreadable(topology, least.source.topic)
                if without is not None:
                    raise DumpRefused(without)
            yield least.lines.popleft()


def _order(part: _Part) -> tuple[int, bool, str, int]:
    return part.order


async def _read_until_line(reader: AIOKafkaConsumer, part: _Part) -> bool:
    """Read until the partition has a line, and return True; return False at the partition's end."""
    while not part.lines:
        records = await records_until(reader, part.source, part.end)
        if not records:
            return False
        await part.take(records)
    return True


async def records_until(reader: AIOKafkaConsumer, source: TopicPartition, end: int) -> list[Any]:
    """Return the next records of a partition below the offset `end`, or none if there are no more.

    Raises:
        DumpStalled: No record arrived for STALLED_TIMEOUT_S.
    """
    deadline_s = time.monotonic() + STALLED_TIMEOUT_S
    while (position := await reader.position(source)) < end:
        if time.monotonic() > deadline_s:
            raise DumpStalled(
                f"{source.topic}/{source.partition} returned no record after offset"
                f" {position} of {end} for {STALLED_TIMEOUT_S:.0f} s; check for an open"
                " transaction, or a broker that does not answer"
            )
        found = await reader.getmany(source, timeout_ms=READ_TIMEOUT_MS)
        if records := [each for each in found.get(source, ()) if each.offset < end]:
            return records
    return []
