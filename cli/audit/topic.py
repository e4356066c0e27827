"""Reads the records of a topic for an audit, in one order, without changing the cluster.

The audit assigns partitions, joins no group, and commits and writes nothing. It fixes the end of
each partition at the start. Records of several partitions are in the order of arrival time, then
partition, then offset. If the topic does not use LogAppendTime, arrival times are unknown. The
partitions are then merged by the largest timestamp that was read from each, and each is judged
separately.

Memory: one fetch of each partition.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Coroutine, Iterator
from contextlib import AsyncExitStack
from itertools import chain, islice
from typing import Any, Final, TypeVar

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
LOOKED_AT: Final = 2_000
"""The maximum number of first records that are checked for LogAppendTime."""

T = TypeVar("T")


class AuditedTopic:
    """The records of a topic in one order, read by blocking calls.

    `last` is the maximum number of records, divided evenly among the partitions. With `since_ms`,
    each partition is read from the first record with this timestamp or a later one, and `last` has
    no effect. If both are None, all records are read. Raises `InputError` if the topic cannot be
    read and `Refused` if it does not exist.
    """

    def __init__(
        self, brokers: Brokers, topic: str, last: int | None, since_ms: int | None
    ) -> None:
        self._topic = topic
        self._runner = asyncio.Runner()
        self._opened = AsyncExitStack()
        self._used: list[TopicPartition] = []
        self.partitions = 1
        try:
            parts = self._run(self._parts(brokers, last, since_ms))
            self._rest = heapq.merge(*parts, key=_clock_ns)
            self._first = list(islice(self._rest, LOOKED_AT))
        except Exception:
            self.close()
            raise
        self.appends = all(each.timestamp_type == APPEND_TIME for each in self.first(LOOKED_AT))
        """Whether the broker sets the timestamp of a record when it appends it."""

    @property
    def order(self) -> OrderRule:
        """The rule that orders the records of several partitions."""
        used = tuple(place.partition for place in self._used) or (0,)
        return OrderRule(used, apart=not self.appends and len(used) > 1)

    def records(self) -> Iterator[tuple[int, Any]]:
        """Return pairs of the largest timestamp read from the partition, in ns, and the record."""
        return chain(self._first, self._rest)

    def first(self, count: int) -> list[Any]:
        """Return the first records, at most `count` and at most `LOOKED_AT`."""
        return [record for _, record in self._first[:count]]

    def close(self) -> None:
        """Close the reader and its event loop."""
        self._runner.run(self._opened.aclose())
        self._runner.close()

    def _run(self, asked: Coroutine[Any, Any, T]) -> T:
        try:
            return self._runner.run(asked)
        except NoTopic:
            raise Refused(f"--topic {self._topic}: there is no such topic") from None
        except (KafkaError, TimeoutError, DumpStalled) as error:
            raise InputError(f"{self._topic} cannot be read: {error}") from None

    async def _parts(
        self, brokers: Brokers, last: int | None, since_ms: int | None
    ) -> list[Iterator[tuple[int, Any]]]:
        """Return, for each partition that has records to read, an iterator over them."""
        reader = await self._opened.enter_async_context(brokers.reader(WAIT_MS))
        numbers = await partition_numbers(reader, self._topic)
        places = [TopicPartition(self._topic, number) for number in sorted(numbers)]
        self.partitions = len(places)
        reader.assign(places)
        ends = await reader.end_offsets(places)
        begins = await reader.beginning_offsets(places)
        if last is not None:
            each = -(-last // len(places))
            begins = {place: max(begins[place], ends[place] - each) for place in places}
        if since_ms is not None:
            found = await reader.offsets_for_times(dict.fromkeys(places, since_ms))
            begins = {place: at.offset if (at := found[place]) else ends[place] for place in places}
        for place in places:
            reader.seek(place, begins[place])
        self._used = [place for place in places if begins[place] < ends[place]]
        return [self._read_partition(reader, place, ends[place]) for place in self._used]

    def _read_partition(
        self, reader: AIOKafkaConsumer, place: TopicPartition, end: int
    ) -> Iterator[tuple[int, Any]]:
        clock_ms = -(1 << 62)
        while records := self._run(records_until(reader, place, end)):
            for record in records:
                clock_ms = max(clock_ms, record.timestamp)
                yield clock_ms * NS_PER_MS, record


def _clock_ns(of_record: tuple[int, Any]) -> int:
    return of_record[0]
