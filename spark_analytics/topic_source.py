"""Read Kafka topics for the data source `inorder`: input topics as lines, ordered topics as rows.

`topic_rows` yields the lines that `inorder dump` prints. `OrderedReader` and `OrderedStream` read
topics that workers have put in order, with a task for each partition. Their columns are those of
the table `events`, and `position` is the record's offset. All of them read committed records only,
join no group and commit no offsets.

The position of a stream is an offset of each partition, kept in Spark's checkpoint with the topic's
id. A micro-batch reads up to the end, or at most `max_per_batch` offsets, shared among the
partitions. Under the trigger `availableNow` the whole topic is read only without `max_per_batch`:
Spark then asks a Python source once, before the batch, how far to read. A stream fails instead of
skipping records if a partition has lost unread offsets, or if the topic was deleted and created
again.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeVar

import orjson
from aiokafka import TopicPartition
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition

from agents.kafka.brokers import Brokers, find_brokers
from agents.kafka.security import read_security
from agents.master_keys import masters_in
from recordings.ordered_lines import OrderedLines
from recordings.topic_dump import dump, records_until
from spark_analytics.backfill.kinds import rows_of
from spark_analytics.executors.setting import Setting, topology_of
from topology.records.line_reader import Row

UNBOUNDED: Final = 1 << 63
"""The number of offsets for a micro-batch that reads up to the end; no topic has more."""
LINES_AT_ONCE: Final = 1_000
Offsets = dict[str, int]
"""The offset of each partition; Spark keeps them as JSON, whose keys are strings."""
T = TypeVar("T")


class TopicLost(Exception):
    """The error of a stream that cannot continue at its position; the message says what to do."""


class Cluster(NamedTuple):
    """A Kafka cluster to read from.

    Secrets come from the environment of the machine that reads.

    Attributes:
        servers: Its bootstrap servers.
        properties: TLS and SASL settings, as in the file of `--kafka`.
    """

    servers: str
    properties: str = ""

    def reach(self) -> Brokers:
        """Connect to the cluster; raise BrokersUnavailable or SecurityRefused if that fails."""
        return find_brokers(self.servers, read_security(self.properties, os.environ))


def topic_rows(cluster: Cluster, setting: Setting, topics: list[str]) -> Iterator[Row]:
    """Yield the rows of input topics up to their current ends, in the order of `inorder dump`."""
    lines = dump(cluster.reach(), topology_of(setting), topics, masters_in(os.environ))
    number = 0
    for part in _run_generator(_batch_items(lines)):
        for line in part:
            number += 1
            yield Row(number, orjson.loads(orjson.dumps(line)))


class OffsetRange(InputPartition):
    """The offsets of a partition from `begin`, inclusive, to `end`, exclusive."""

    def __init__(self, partition: int, begin: int, end: int) -> None:
        self.partition = partition
        self.begin = begin
        self.end = end


class _OrderedTopic:
    """The base class of both readers, which Spark pickles for their tasks."""

    def __init__(self, setting: Setting, cluster: Cluster, topic: str) -> None:
        self._setting = setting
        self._cluster = cluster
        self._topic = topic

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield Arrow batches of a partition's rows."""
        assert isinstance(partition, OffsetRange)
        return _run_generator(self._rows(partition))

    async def _rows(self, stretch: OffsetRange) -> AsyncGenerator[Any, None]:
        ordered = OrderedLines(topology_of(self._setting), self._topic)
        place = TopicPartition(self._topic, stretch.partition)
        brokers = self._cluster.reach()
        await self._places(brokers)
        async with brokers.reader() as reader:
            reader.assign([place])
            first = (await reader.beginning_offsets([place]))[place]
            if first > stretch.begin:
                raise TopicLost(
                    f"{self._topic}/{stretch.partition}: retention has removed the offsets"
                    f" {stretch.begin} to {first - 1}, which were not read yet;"
                    " start with a new checkpoint"
                )
            reader.seek(place, stretch.begin)
            while records := await records_until(reader, place, stretch.end):
                if found := [*await ordered.lines(records)]:
                    offsets, lines = zip(*found, strict=True)
                    yield rows_of("events", lines, offsets)

    async def _bounds(self, brokers: Brokers) -> tuple[Offsets, Offsets]:
        """Return the first offset of each partition, and the end of its completed transactions."""
        places = await self._places(brokers)
        async with brokers.reader() as reader:
            begins = await reader.beginning_offsets(places)
            ends = await reader.end_offsets(places)
        return _by_number(begins), _by_number(ends)

    async def _places(self, brokers: Brokers) -> list[TopicPartition]:
        count = (await asyncio.to_thread(brokers.count_partitions, [self._topic]))[self._topic]
        if not count:
            raise TopicLost(
                f"{brokers.servers} has no topic {self._topic}; run `inorder topics create` first"
            )
        return [TopicPartition(self._topic, number) for number in range(count)]


class OrderedReader(_OrderedTopic, DataSourceReader):
    """A reader of an ordered topic up to its current end."""

    def partitions(self) -> list[OffsetRange]:
        return _stretches(*asyncio.run(self._bounds(self._cluster.reach())))


class OrderedStream(_OrderedTopic, DataSourceStreamReader):
    """A streaming reader of an ordered topic; a micro-batch has at most `max_per_batch` offsets."""

    def __init__(self, setting: Setting, cluster: Cluster, topic: str, max_per_batch: int) -> None:
        super().__init__(setting, cluster, topic)
        self._max_per_batch = max_per_batch
        self._planned: dict[str, Any] | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        begins, _ = asyncio.run(self._bounds(brokers := self._cluster.reach()))
        return {"topic": self._read_topic_id(brokers), "offsets": begins}

    def latestOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return the end of the next micro-batch.

        Spark does not pass the end of the last batch. But Spark always plans that batch first,
        after a restart as an empty batch, so `partitions` has recorded its end.
        """
        brokers = self._cluster.reach()
        begins, ends = asyncio.run(self._bounds(brokers))
        topic_id = self._read_topic_id(brokers)
        planned = self._planned or {"topic": topic_id, "offsets": begins}
        offsets = planned["offsets"]
        if planned["topic"] != topic_id or any(ends[each] < offsets[each] for each in offsets):
            raise TopicLost(
                f"{self._topic} was deleted and created again since this stream read it; start"
                " with a new checkpoint"
            )
        return {"topic": topic_id, "offsets": share(offsets, ends, self._max_per_batch)}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[OffsetRange]:
        self._planned = end
        return _stretches(start["offsets"], end["offsets"])

    def _read_topic_id(self, brokers: Brokers) -> str:
        return brokers.topic_ids([self._topic]).get(self._topic, "")


def share(begins: Mapping[str, int], ends: Mapping[str, int], most: int) -> Offsets:
    """Return the ends of a batch of at most `most` offsets, shared among the partitions.

    The unused share of a partition goes to partitions with more offsets. A partition that is not in
    `begins` starts at 0.
    """
    found: Offsets = {}
    waiting = {number: end - begins.get(number, 0) for number, end in ends.items()}
    for at, number in enumerate(sorted(waiting, key=waiting.__getitem__)):
        taken = min(waiting[number], most // (len(waiting) - at))
        found[number] = begins.get(number, 0) + taken
        most -= taken
    return found


def _stretches(begins: Mapping[str, int], ends: Mapping[str, int]) -> list[OffsetRange]:
    found = [OffsetRange(int(number), begins.get(number, 0), end) for number, end in ends.items()]
    return [each for each in found if each.begin < each.end]


def _by_number(offsets: Mapping[TopicPartition, int]) -> Offsets:
    return {str(place.partition): offset for place, offset in offsets.items()}


async def _batch_items(found: AsyncGenerator[T, None]) -> AsyncGenerator[list[T], None]:
    held: list[T] = []
    async for each in found:
        held.append(each)
        if len(held) == LINES_AT_ONCE:
            yield held
            held = []
    if held:
        yield held


def _run_generator(found: AsyncGenerator[T, None]) -> Iterator[T]:
    """Yield the items of an async generator, running its loop here."""

    async def fetch_next() -> T | None:
        return await anext(found, None)

    async def close() -> None:
        await found.aclose()

    with asyncio.Runner() as runner:
        try:
            while (each := runner.run(fetch_next())) is not None:
                yield each
        finally:
            runner.run(close())
