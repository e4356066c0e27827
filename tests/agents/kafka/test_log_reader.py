"""Examples, on a real broker: one client reads many partitions; unreadable ones raise errors."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager
from random import Random
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete
from aiokafka.errors import KafkaError
from aiokafka.protocol.commit import OffsetFetchRequest, OffsetFetchResponse_v3
from aiokafka.protocol.fetch import FetchRequest
from aiokafka.structs import TopicPartition

from agents.kafka import log_reader
from agents.kafka.brokers import Brokers
from agents.kafka.log_reader import LOOK_S, LogReader
from cli.local.kafka import KafkaBroker
from codec.compression import MAX_UNPACKED_BYTES
from infra.kafka import ContainerBroker
from tests.services import SharedKafka, UniqueName
from tests.waiting import calm_s

pytestmark = pytest.mark.kafka

PARTITIONS = 6
TRIES = 20
PATIENCE_S = 30.0
AT_ONCE_S = 0.3
"""A bound far below the wait of a fetch at a broker, for the best of several tries."""


class Log:
    """A topic, its first partition, and clients of it."""

    def __init__(self, bootstrap: str, name: str) -> None:
        self.bootstrap = bootstrap
        self.place = TopicPartition(name, 0)

    @asynccontextmanager
    async def reader(self) -> AsyncIterator[LogReader]:
        """Yield a reader of this topic and of the offsets of the group named after it."""
        name, brokers = self.place.topic, Brokers(self.bootstrap, is_embedded=False)
        logs = LogReader(brokers, name, {name: MAX_UNPACKED_BYTES})
        try:
            await logs.start()
            yield logs
        finally:
            await logs.stop()

    def transactional(self) -> AIOKafkaProducer:
        name = self.place.topic
        return AIOKafkaProducer(bootstrap_servers=self.bootstrap, transactional_id=name)

    @asynccontextmanager
    async def both(self) -> AsyncIterator[tuple[AIOKafkaProducer, LogReader]]:
        async with self.transactional() as producer, self.reader() as logs:
            yield producer, logs


async def write_transaction(
    producer: AIOKafkaProducer, place: TopicPartition, *values: bytes
) -> None:
    """Write the values in one transaction, whose marker follows them."""
    async with producer.transaction():
        for value in values:
            await producer.send_and_wait(place.topic, value, partition=place.partition)


async def read(
    logs: LogReader, place: TopicPartition, begin: int, end: int, most: int | None = None
) -> tuple[list[bytes], int]:
    """Return the values and the position after them."""
    values, position = [], begin
    async for records, reached in logs.read_range(place, begin, end, most):
        assert most is None or len(records) <= most
        values += [record.value for record in records]
        position = reached
    return values, position


@pytest.fixture
def log(kafka: SharedKafka, unique_name: UniqueName) -> Log:
    name = unique_name("log")
    kafka.create_topic(name, PARTITIONS)
    return Log(kafka.bootstrap, name)


async def test_committed_records_are_read(log: Log) -> None:
    async with log.both() as (producer, logs):
        assert await logs.bounds(log.place) == (0, 0)
        assert await read(logs, log.place, 0, 0) == ([], 0)
        await write_transaction(producer, log.place, b"0", b"1")
        await producer.begin_transaction()
        await producer.send_and_wait(log.place.topic, b"3", partition=0)
        await producer.abort_transaction()
        await write_transaction(producer, log.place, b"5")
        await producer.begin_transaction()
        await producer.send_and_wait(log.place.topic, b"7", partition=0)
        assert await logs.bounds(log.place) == (0, 7)  # an open transaction is undecided
        assert await read(logs, log.place, 0, 7) == ([b"0", b"1", b"5"], 7)
        assert await read(logs, log.place, 1, 7, most=1) == ([b"1", b"5"], 7)
        pieces = logs.read_range(log.place, 0, 7, with_aborted=True)
        values = [record.value async for records, _ in pieces for record in records]
        assert values[:4] == [b"0", b"1", b"3", b"5"]  # The last piece goes beyond the end.
        assert await read(logs, log.place, 6, 7) == ([], 7)
        await producer.abort_transaction()
        async with asyncio.timeout(PATIENCE_S):  # the marker follows the answer
            while await logs.bounds(log.place) != (0, 9):
                await asyncio.sleep(LOOK_S)
        assert await read(logs, log.place, 6, 9) == ([], 9)


async def test_lone_marker_is_passed_quickly(log: Log) -> None:
    """A marker follows the records in the local copy, so each returning partition meets one."""

    async with log.both() as (producer, logs):
        await write_transaction(producer, log.place, b"0")
        took_s = []
        for _ in range(TRIES):
            began_s = time.monotonic()
            assert await read(logs, log.place, 1, 2) == ([], 2)
            took_s.append(calm_s(began_s))
        assert min(took_s) < AT_ONCE_S, took_s


async def test_concurrent_reads_are_separate(log: Log) -> None:
    rng = Random(7)
    places = [log.place._replace(partition=number) for number in range(PARTITIONS)]
    lengths = {each: rng.randrange(0, 60) for each in places}

    async with log.both() as (producer, logs):
        for each, length in lengths.items():
            for number in range(length):
                if number % 9 == 0:
                    await producer.begin_transaction()
                value = b"%d/%d" % (each.partition, number)
                await producer.send(log.place.topic, value, partition=each.partition)
                if number % 9 == 8 or number == length - 1:
                    await producer.commit_transaction()

        async def whole(each: TopicPartition, most: int | None) -> list[bytes]:
            first, end = await logs.bounds(each)
            values, position = await read(logs, each, first, end, most)
            assert position == end
            return values

        for most in (None, 1, 7):
            found = await asyncio.gather(*(whole(each, most) for each in places))
            assert dict(zip(places, found, strict=True)) == {
                each: [b"%d/%d" % (each.partition, number) for number in range(length)]
                for each, length in lengths.items()
            }


async def test_abandoned_read_leaves_no_tasks(log: Log) -> None:
    async with log.both() as (producer, logs):
        await write_transaction(producer, log.place, b"0", b"1", b"2")
        before = asyncio.all_tasks()
        async with aclosing(logs.read_range(log.place, 0, 4, 1)) as pieces:
            async for records, position in pieces:
                assert ([record.value for record in records], position) == ([b"0"], 1)
                break
        assert asyncio.all_tasks() == before
        assert await read(logs, log.place, 0, 4) == ([b"0", b"1", b"2"], 4)


async def test_expired_records_are_skipped(log: Log) -> None:
    async with log.both() as (producer, logs):
        await write_transaction(producer, log.place, *(b"%d" % number for number in range(10)))
        admin = AIOKafkaAdminClient(bootstrap_servers=log.bootstrap)
        await admin.start()
        await admin.delete_records({log.place: RecordsToDelete(before_offset=8)})
        await admin.close()
        assert await logs.bounds(log.place) == (8, 11)
        assert await read(logs, log.place, 3, 11) == ([b"8", b"9"], 11)


async def commit_offset(producer: AIOKafkaProducer, place: TopicPartition, offset: int) -> None:
    """Commit the offset twice, for the group named after the topic.

    An offset counts from its transaction's marker, which can follow the answer. The next
    transaction waits for the marker.
    """
    for _ in range(2):
        async with producer.transaction():
            await producer.send_offsets_to_transaction({place: offset}, place.topic)


class Sent:
    """A recorder of the client's requests that refuses the first offset fetches with `code`."""

    def __init__(self, logs: LogReader, code: int = 0, refusals: int = 0) -> None:
        self.requests: list[object] = []
        self.refusals = refusals
        self._code = code
        client = logs._client
        assert client is not None
        self._send = client.send
        client.send = self._answer

    async def _answer(self, node: int, request: object, **how: Any) -> Any:
        self.requests.append(request)
        if isinstance(request, OffsetFetchRequest) and self.refusals:
            self.refusals -= 1
            return OffsetFetchResponse_v3(0, [], self._code)
        return await self._send(node, request, **how)


async def test_offset_fetch_is_retried(
    log: Log,
) -> None:
    """Error codes 14, 15 and 16: the coordinator is loading, is not available, or has moved."""
    async with log.both() as (producer, logs):
        assert await logs.read_committed(log.place) is None
        await commit_offset(producer, log.place, 17)
        for code in (14, 15, 16):
            sent = Sent(logs, code, refusals=3)
            assert await logs.read_committed(log.place) == 17
            assert sent.refusals == 0
        assert await logs.read_committed(log.place._replace(partition=1)) is None


async def test_refusal_names_the_partition(log: Log) -> None:
    async with log.reader() as logs:
        Sent(logs, 30, refusals=1)
        name = log.place.topic
        told = rf"{name} for {name}/0: GroupAuthorizationFailed"
        with pytest.raises(KafkaError, match=told):
            await logs.read_committed(log.place)


async def test_endless_refusals_time_out(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    async with log.reader() as logs:
        Sent(logs, 16, refusals=1_000)
        with (
            shortened_limit(monkeypatch, "ANSWER_S"),
            pytest.raises(TimeoutError, match="coordinator"),
        ):
            await logs.read_committed(log.place)


async def test_restarted_broker_gives_offset(
    own_kafka: KafkaBroker | ContainerBroker,
) -> None:
    """A broker answers while it still loads its groups' offsets.

    One client outlives the restart; the others start after it.
    """
    log = Log(own_kafka.bootstrap, "log")
    SharedKafka(own_kafka.bootstrap).create_topic("log")
    async with log.reader() as kept:
        async with log.transactional() as producer:
            await commit_offset(producer, log.place, 17)
        await asyncio.to_thread(own_kafka.kill)
        await asyncio.to_thread(own_kafka.restart)
        for _ in range(TRIES):
            assert await kept.read_committed(log.place) == 17
            async with log.reader() as another:
                assert await another.read_committed(log.place) == 17


async def test_stalled_read_polls_rarely(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    async with log.both() as (producer, logs):
        await write_transaction(producer, log.place, b"0")
        sent = Sent(logs)
        monkeypatch.setattr(log_reader, "STALLED_S", 2.0)
        with pytest.raises(TimeoutError):
            await read(logs, log.place, 1, 5)
        fetches = [each for each in sent.requests if isinstance(each, FetchRequest)]
        assert 10 <= len(fetches) < 100  # ten a second, and more until the stall is noticed


@contextmanager
def shortened_limit(monkeypatch: pytest.MonkeyPatch, bound: str) -> Iterator[None]:
    """Shorten the time limit named `bound` to half a second within the block."""
    with monkeypatch.context() as patch:
        patch.setattr(log_reader, bound, 0.5)
        yield


@pytest.mark.parametrize(
    ("bound", "ask", "told"),
    [
        ("STALLED_S", lambda logs, place: read(logs, place, 1, 5),
         r"/0 cannot be read beyond offset 2 of 5: no record arrived for"),
        ("ANSWER_S", lambda logs, place: logs.bounds(place._replace(partition=PARTITIONS)),
         rf"the first and last offset of .*/{PARTITIONS} within .*: it has no leader"),
    ],
)  # fmt: skip
async def test_timeout_names_the_partition(
    log: Log,
    monkeypatch: pytest.MonkeyPatch,
    bound: str,
    ask: Callable[..., asyncio.Future[object]],
    told: str,
) -> None:
    async with log.both() as (producer, logs):
        await write_transaction(producer, log.place, b"0")
        with shortened_limit(monkeypatch, bound), pytest.raises(TimeoutError, match=told):
            await ask(logs, log.place)


async def test_missing_leader_is_named(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    unknown = log.place._replace(partition=PARTITIONS)
    async with log.reader() as logs:
        assert await logs.leaderless([log.place, unknown]) == [unknown]
        monkeypatch.setattr(logs._client.cluster, "leader_for_partition", lambda _: -1)
        assert await logs.leaderless([log.place]) == [log.place]
