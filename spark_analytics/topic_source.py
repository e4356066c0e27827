"""Kafka topics for the data source `inorder`: input topics as lines, ordered topics as rows.

`topic_rows` gives what `inorder dump` prints. `OrderedReader` and `OrderedStream` read what workers
have put in order, each partition in a task; the columns are those of the table `events`, and
`position` is the record's offset. All read what is committed, join no group and commit nothing.

A stream's place is an offset of each partition, kept in Spark's checkpoint with the topic's id. A
micro-batch goes up to the end, or takes at most `max_per_batch` offsets, shared over the
partitions: the former alone is whole under the trigger `availableNow`, under which Spark asks a
source in Python once, and before the batch, how far to read. It fails, and skips nothing, where a
partition has lost offsets that were not read, or the topic was made anew.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeVar

import orjson
from aiokafka import TopicPartition
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition

from agents.kafka.brokers import Brokers, brokers_at
from agents.kafka.security import read_security
from agents.master_keys import masters_in
from recordings.ordered_lines import OrderedLines
from recordings.topic_dump import dumped, records_until
from spark_analytics.backfill.kinds import rows_of
from spark_analytics.executors.setting import Setting, topology_of
from topology.wire.line_reader import Row

UNBOUNDED: Final = 1 << 63
"""Offsets of a micro-batch that goes up to the end: more than a topic has."""
LINES_AT_ONCE: Final = 1_000
Offsets = dict[str, int]
"""By partition: Spark keeps them as JSON, whose keys are texts."""
T = TypeVar("T")


class TopicLost(Exception):
    """A stream cannot go on where it was; the message says why, and what to do."""


class Cluster(NamedTuple):
    """`properties`: TLS and SASL settings, as in the file of `--kafka`. Secrets of the environment
    are those of the machine that reads."""

    servers: str
    properties: str = ""

    def reached(self) -> Brokers:
        """BrokersUnavailable, SecurityRefused."""
        return brokers_at(self.servers, read_security(self.properties, os.environ))


def topic_rows(cluster: Cluster, setting: Setting, topics: list[str]) -> Iterator[Row]:
    """The rows of these input topics, in the order of `inorder dump`, up to their current ends."""
    lines = dumped(cluster.reached(), topology_of(setting), topics, masters_in(os.environ))
    number = 0
    for part in _driven(_in_lists(lines)):
        for line in part:
            number += 1
            yield Row(number, orjson.loads(orjson.dumps(line)))


class Stretch(InputPartition):
    """The offsets of a partition from `begin` until `end`."""

    def __init__(self, partition: int, begin: int, end: int) -> None:
        self.partition = partition
        self.begin = begin
        self.end = end


class _OrderedTopic:
    """What both readers share; it is pickled for the tasks."""

    def __init__(self, setting: Setting, cluster: Cluster, topic: str) -> None:
        self._setting = setting
        self._cluster = cluster
        self._topic = topic

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Batches of Arrow."""
        assert isinstance(partition, Stretch)
        return _driven(self._rows(partition))

    async def _rows(self, stretch: Stretch) -> AsyncGenerator[Any, None]:
        ordered = OrderedLines(topology_of(self._setting), self._topic)
        place = TopicPartition(self._topic, stretch.partition)
        brokers = self._cluster.reached()
        await self._places(brokers)
        async with brokers.reader() as reader:
            reader.assign([place])
            first = (await reader.beginning_offsets([place]))[place]
            if first > stretch.begin:
                raise TopicLost(
                    f"{self._topic}/{stretch.partition} begins at offset {first} now, and"
                    f" {stretch.begin} to {first - 1} were not read: retention has removed them;"
                    " begin with a new checkpoint"
                )
            reader.seek(place, stretch.begin)
            while records := await records_until(reader, place, stretch.end):
                if found := [*await ordered.lines(records)]:
                    offsets, lines = zip(*found, strict=True)
                    yield rows_of("events", lines, offsets)

    async def _bounds(self, brokers: Brokers) -> tuple[Offsets, Offsets]:
        """The first offsets of the partitions, and those behind all that is decided."""
        places = await self._places(brokers)
        async with brokers.reader() as reader:
            begins = await reader.beginning_offsets(places)
            ends = await reader.end_offsets(places)
        return _by_number(begins), _by_number(ends)

    async def _places(self, brokers: Brokers) -> list[TopicPartition]:
        count = (await asyncio.to_thread(brokers.partitions, [self._topic]))[self._topic]
        if not count:
            raise TopicLost(
                f"{brokers.servers} has no topic {self._topic}; run `inorder topics create` first"
            )
        return [TopicPartition(self._topic, number) for number in range(count)]


class OrderedReader(_OrderedTopic, DataSourceReader):
    """An ordered topic up to its current end."""

    def partitions(self) -> list[Stretch]:
        return _stretches(*asyncio.run(self._bounds(self._cluster.reached())))


class OrderedStream(_OrderedTopic, DataSourceStreamReader):
    """An ordered topic as it grows. `max_per_batch`: the most offsets of a micro-batch."""

    def __init__(self, setting: Setting, cluster: Cluster, topic: str, max_per_batch: int) -> None:
        super().__init__(setting, cluster, topic)
        self._max_per_batch = max_per_batch
        self._planned: dict[str, Any] | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        begins, _ = asyncio.run(self._bounds(brokers := self._cluster.reached()))
        return {"topic": self._id(brokers), "offsets": begins}

    def latestOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Spark does not pass where the last batch ended, but has it planned before: by itself, or
        after a restart as an empty batch."""
        brokers = self._cluster.reached()
        begins, ends = asyncio.run(self._bounds(brokers))
        topic_id = self._id(brokers)
        planned = self._planned or {"topic": topic_id, "offsets": begins}
        offsets = planned["offsets"]
        if planned["topic"] != topic_id or any(ends[each] < offsets[each] for each in offsets):
            raise TopicLost(
                f"{self._topic} was deleted and made again since this stream has read it; begin"
                " with a new checkpoint"
            )
        return {"topic": topic_id, "offsets": shared(offsets, ends, self._max_per_batch)}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[Stretch]:
        self._planned = end
        return _stretches(start["offsets"], end["offsets"])

    def _id(self, brokers: Brokers) -> str:
        return brokers.topic_ids([self._topic]).get(self._topic, "")


def shared(begins: Mapping[str, int], ends: Mapping[str, int], most: int) -> Offsets:
    """Ends of a batch of at most so many offsets: what one partition does not need goes to those
    that have more. A partition that `begins` lacks begins at 0."""
    found: Offsets = {}
    waiting = {number: end - begins.get(number, 0) for number, end in ends.items()}
    for at, number in enumerate(sorted(waiting, key=waiting.__getitem__)):
        taken = min(waiting[number], most // (len(waiting) - at))
        found[number] = begins.get(number, 0) + taken
        most -= taken
    return found


def _stretches(begins: Mapping[str, int], ends: Mapping[str, int]) -> list[Stretch]:
    found = [Stretch(int(number), begins.get(number, 0), end) for number, end in ends.items()]
    return [each for each in found if each.begin < each.end]


def _by_number(offsets: Mapping[TopicPartition, int]) -> Offsets:
    return {str(place.partition): offset for place, offset in offsets.items()}


async def _in_lists(found: AsyncGenerator[T, None]) -> AsyncGenerator[list[T], None]:
    held: list[T] = []
    async for each in found:
        held.append(each)
        if len(held) == LINES_AT_ONCE:
            yield held
            held = []
    if held:
        yield held


def _driven(found: AsyncGenerator[T, None]) -> Iterator[T]:
    """The same without `async`."""

    async def upcoming() -> T | None:
        return await anext(found, None)

    async def closed() -> None:
        await found.aclose()

    with asyncio.Runner() as runner:
        try:
            while (each := runner.run(upcoming())) is not None:
                yield each
        finally:
            runner.run(closed())
