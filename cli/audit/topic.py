"""The records of a topic for an audit, in one order, read without leaving a trace.

Partitions are assigned, no group is joined, nothing is committed or written. Where each ends is
fixed at the start. Records of several partitions come by append time, then partition, then offset.
Where the topic has no append time, nothing orders partitions: they come by the largest timestamp so
far of each, and are judged apart.

Memory: one fetch of each partition.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError

from agents.kafka.brokers import Brokers
from agents.kafka.whole_topic import NoTopic, partition_numbers
from cli.topology_file import Refused
from recordings.audit.row import OrderRule
from recordings.file import InputError
from recordings.topic_dump import DumpStalled, records_until

NS_PER_MS: Final = 1_000_000
WAIT_MS: Final = 200
APPEND_TIME: Final = 1
AT_ONCE: Final = 2_000


@dataclass(slots=True)
class _Part:
    """One partition on its way. `clock_ms`: the largest timestamp so far."""

    place: TopicPartition
    end: int
    records: deque[tuple[int, Any]]
    clock_ms: int = -(1 << 62)

    def take(self, records: list[Any]) -> None:
        for record in records:
            self.clock_ms = max(self.clock_ms, record.timestamp)
            self.records.append((self.clock_ms, record))


class AuditedTopic:
    """`last`: so many records over all partitions together; `since_ms`: those from that timestamp
    on; both None: all. InputError where the topic cannot be read, Refused where there is none.
    Blocks."""

    def __init__(
        self, brokers: Brokers, topic: str, last: int | None, since_ms: int | None
    ) -> None:
        self._brokers = brokers
        self._topic = topic
        self._last = last
        self._since_ms = since_ms
        self._used: tuple[int, ...] = (0,)
        self.partitions = 1
        self._runner = asyncio.Runner()
        self._records = self._pages()
        try:
            self._first: list[tuple[int, Any]] = self._next_page() or []
        except Exception:
            self.close()
            raise
        records = [record for _, record in self._first]
        self.appends = all(record.timestamp_type == APPEND_TIME for record in records)
        """The broker stamps records as it appends them."""

    @property
    def order(self) -> OrderRule:
        """How partitions are put in order."""
        return OrderRule(self._used, apart=not self.appends and len(self._used) > 1)

    def records(self) -> Iterator[tuple[int, Any]]:
        """The largest timestamp so far of its partition in ns, and the record."""
        page: list[tuple[int, Any]] | None = self._first
        self._first = []
        while page:
            yield from ((clock_ms * NS_PER_MS, record) for clock_ms, record in page)
            page = self._next_page()

    def first(self, count: int) -> list[Any]:
        """Some of the first records."""
        return [record for _, record in self._first[:count]]

    def close(self) -> None:
        """Ends the reading."""
        self._runner.run(self._records.aclose())
        self._runner.close()

    def _next_page(self) -> list[tuple[int, Any]] | None:
        try:
            return self._runner.run(self._page())
        except NoTopic:
            raise Refused(f"--topic {self._topic}: there is no such topic") from None
        except (KafkaError, TimeoutError, DumpStalled) as error:
            raise InputError(f"{self._topic} cannot be read: {error}") from None

    async def _page(self) -> list[tuple[int, Any]] | None:
        return await anext(self._records, None)

    async def _pages(self) -> AsyncGenerator[list[tuple[int, Any]], None]:
        async with self._brokers.reader(WAIT_MS) as reader:
            numbers = await partition_numbers(reader, self._topic)
            places = [TopicPartition(self._topic, number) for number in sorted(numbers)]
            self.partitions = len(places)
            reader.assign(places)
            parts = await self._parts(reader, places)
            self._used = tuple(part.place.partition for part in parts) or (0,)
            page: list[tuple[int, Any]] = []
            while parts := [part for part in parts if await _filled(reader, part)]:
                page.append(min(parts, key=_next_ms).records.popleft())
                if len(page) >= AT_ONCE:
                    yield page
                    page = []
            if page:
                yield page

    async def _parts(self, reader: AIOKafkaConsumer, places: list[TopicPartition]) -> list[_Part]:
        """Those with records to read, from their first one."""
        ends = await reader.end_offsets(places)
        begins = await reader.beginning_offsets(places)
        if self._last is not None:
            each = -(-self._last // len(places))
            begins = {place: max(begins[place], ends[place] - each) for place in places}
        if self._since_ms is not None:
            found = await reader.offsets_for_times(dict.fromkeys(places, self._since_ms))
            begins = {place: at.offset if (at := found[place]) else ends[place] for place in places}
        for place in places:
            reader.seek(place, begins[place])
        return [
            _Part(place, ends[place], deque()) for place in places if begins[place] < ends[place]
        ]


def _next_ms(part: _Part) -> int:
    """The clock of its next record."""
    return part.records[0][0]


async def _filled(reader: AIOKafkaConsumer, part: _Part) -> bool:
    """True if the partition has a record to give, False at its end."""
    while not part.records:
        found = await records_until(reader, part.place, part.end)
        if not found:
            return False
        part.take(found)
    return True
