"""End to end: the batch transport against a real broker, where the embedded one differs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.structs import TopicPartition

from agents.kafka.pace import SILENT
from agents.kafka.partition_queue import NEVER, steady_ns
from agents.kafka.transport import InputLost
from tests.agents.recorder import Recorder, application, numbers, produce, run_to_failure, started
from tests.services import SharedKafka, UniqueName
from tests.waiting import until

TRIES = 4
"""Number of tries, one of which has to be quick; waiting for the poll takes 2 s."""


pytestmark = pytest.mark.kafka


@pytest.fixture
def name(kafka: SharedKafka, unique_name: UniqueName) -> str:
    """Return the name of a new topic with one partition."""
    found = unique_name("raw")
    kafka.create_topic(found)
    return found


@pytest.fixture
def wide(kafka: SharedKafka, unique_name: UniqueName) -> str:
    """Return the name of a new topic with four partitions."""
    found = unique_name("raw")
    kafka.create_topic(found, partitions=4)
    return found


async def test_open_transaction_stops_ticks(kafka: SharedKafka, name: str) -> None:
    """No tick comes while a transaction is open, and only committed records arrive."""
    handler = Recorder()
    async with (
        AIOKafkaProducer(bootstrap_servers=kafka.bootstrap, transactional_id=name) as producer,
        application(kafka.bootstrap, [name], handler, name),
    ):
        await until(lambda: bool(handler.ticks(0)))
        await producer.begin_transaction()
        await producer.send_and_wait(name, b"aborted")
        await producer.abort_transaction()
        await until(lambda: handler.ticks(0)[-1].end.position == 2)  # with the marker
        await producer.begin_transaction()
        await producer.send_and_wait(name, b"committed")
        open_at_ns = steady_ns()
        await asyncio.sleep(0.5)  # Ten ticks would fit in this time; none may come.
        assert all(
            (tick.end.last_empty_fetch or NEVER).mono_ns <= open_at_ns for tick in handler.ticks(0)
        )
        await producer.commit_transaction()
        await until(lambda: handler.ticks(0)[-1].end.position == 4)
    assert handler.values(0) == [b"committed"]


@asynccontextmanager
async def administering(kafka: SharedKafka) -> AsyncIterator[AIOKafkaAdminClient]:
    admin = AIOKafkaAdminClient(bootstrap_servers=kafka.bootstrap)
    await admin.start()
    yield admin
    await admin.close()


async def test_lost_records_are_noticed(kafka: SharedKafka, name: str) -> None:
    """Expired records count as skipped; an offset beyond a recreated topic's end is an error."""
    partition = TopicPartition(name, 0)
    produce(kafka.bootstrap, name, 100, partitions=1)
    async with administering(kafka) as admin:
        await admin.delete_records({partition: RecordsToDelete(before_offset=60)})
    handler = Recorder(start_at={0: 10})
    async with application(kafka.bootstrap, [name], handler, name):
        await until(lambda: handler.read() == 40)
    assert handler.batches[0].skipped == 50
    assert handler.batches[0].end.position == 60
    assert handler.values(0) == numbers(60, 100)

    beyond = Recorder(start_at={0: 500})
    with pytest.raises(InputLost, match="recreated"):
        await run_to_failure(kafka.bootstrap, name, beyond)


async def test_deleted_topic_ends_the_run(kafka: SharedKafka, name: str) -> None:
    produce(kafka.bootstrap, name, 10, partitions=1)
    handler = Recorder(start_at={0: 10})

    async def scenario() -> None:
        async with started(kafka.bootstrap, name, handler), administering(kafka) as admin:
            await until(lambda: bool(handler.ticks(0)))
            await admin.delete_topics([name])

    with pytest.raises(InputLost, match=r"was deleted|recreated"):  # brokers may auto-create
        await scenario()


async def test_huge_record_arrives(kafka: SharedKafka, unique_name: UniqueName) -> None:
    name = unique_name("raw")
    kafka.create_topic(name, config={"max.message.bytes": str(24 << 20)})
    size = 18 << 20

    large = {"max_request_size": 24 << 20}
    async with AIOKafkaProducer(bootstrap_servers=kafka.bootstrap, **large) as producer:
        await producer.send_and_wait(name, b"x" * size)
        await producer.send_and_wait(name, b"after")
    handler = Recorder()
    async with application(kafka.bootstrap, [name], handler, name):
        await until(lambda: handler.read() == 2)
    assert [len(value) for value in handler.values(0)] == [size, 5]


async def test_share_moves_after_revocation(kafka: SharedKafka, wide: str) -> None:
    first, second = Recorder(), Recorder()
    order: list[str] = []

    async def let_go() -> None:
        await asyncio.sleep(0)
        order.append("first revoked")

    async def take() -> None:
        order.append("second assigned")

    async with application(kafka.bootstrap, [wide], first, wide):
        await until(lambda: len(first.owned) == 4)
        first.before_revoked, second.before_assigned = let_go, take
        async with application(kafka.bootstrap, [wide], second, wide):
            await until(lambda: len(second.owned) == 2)
            await until(lambda: len(first.owned) == 2)
            assert order[:2] == ["first revoked", "second assigned"]
            assert not first.owned & second.owned
            produce(kafka.bootstrap, wide, 100)
            await until(lambda: first.read() == 200)
            await until(lambda: second.read() == 200)
        await until(lambda: len(first.owned) == 4)


async def test_stop_completes_during_rebalance(
    kafka: SharedKafka, wide: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A worker stops while it rejoins: another worker has joined, and a third releases nothing."""
    first, second, third = Recorder(), Recorder(), Recorder()
    released = asyncio.Event()
    async with application(kafka.bootstrap, [wide], first, wide):
        await until(lambda: len(first.owned) == 4)
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(application(kafka.bootstrap, [wide], second, wide))
            await until(lambda: len(second.owned) == 2)
            await until(lambda: len(first.owned) == 2)
            first.before_revoked = released.wait
            others = AsyncExitStack()
            await others.enter_async_context(application(kafka.bootstrap, [wide], third, wide))
            await until(lambda: second.has("revoked"))
            given_before = second.count("assigned")
        assert "Faust did not stop" not in caplog.text, "it waited for the first"
        assert second.count("assigned") == given_before
        released.set()
        async with others:
            await until(lambda: len(first.owned) == 2)
            await until(lambda: len(third.owned) == 2)
            assert first.count("revoked") == 2


class Resting(Recorder):
    """A handler at rest that needs no ticks, so a fetch waits for `SILENT.fetch_wait_ms`."""

    wants_ticks = False
    rests = True

    async def until_read(self, count: int) -> None:
        await until(lambda: self.read() >= count)

    async def until_more_begin(self, before: int) -> None:
        await until(lambda: self.count("reading") > before)


async def test_hurry_interrupts_a_poll(kafka: SharedKafka, name: str) -> None:
    """A poll and a fetch have just begun to wait for two seconds when the thread is hurried.

    Later requests on the same connection do not wait for them.
    """
    took_s = []

    handler = Resting()
    async with application(kafka.bootstrap, [name], handler, name) as app:
        await until(lambda: handler.has("assigned"))
        thread = app.batches._thread
        for count in range(1, TRIES + 1):
            produce(kafka.bootstrap, name, 1, partitions=1)
            await handler.until_read(count)
            await until(lambda: SILENT.fetch_wait_ms in thread._times.waits_ms.values())
            began_s = time.monotonic()
            thread.thread_loop.call_soon_threadsafe(thread.interrupt_poll)
            async with app.batches._polling:
                await thread.find_first_offset(TopicPartition(name, 0))
            took_s.append(time.monotonic() - began_s)
    assert min(took_s) < SILENT.poll_s / 2, took_s


async def test_resting_member_rejoins_soon(kafka: SharedKafka, unique_name: UniqueName) -> None:
    """A member whose poll and fetch have just begun to wait learns of another by a heartbeat."""
    name = unique_name("raw")
    kafka.create_topic(name, partitions=2)
    took_s = []

    handler = Resting()
    async with application(kafka.bootstrap, [name], handler, name) as app:
        await until(lambda: handler.has("assigned"))
        waits_ms = app.batches._thread._times.waits_ms
        for _ in range(TRIES):
            await until(lambda: len(handler.reading) == 2)
            other = AIOKafkaConsumer(
                name,
                bootstrap_servers=kafka.bootstrap,
                group_id=name,
                partition_assignment_strategy=[RoundRobinPartitionAssignor],
            )
            read = handler.read()
            produce(kafka.bootstrap, name, 1, partitions=1)
            await handler.until_read(read + 1)
            await until(lambda: SILENT.fetch_wait_ms in waits_ms.values())
            began_s, before = time.monotonic(), handler.count("reading")
            joining = asyncio.create_task(other.start())
            await handler.until_more_begin(before)
            took_s.append(time.monotonic() - began_s)
            assert len(handler.reading) == 1
            await joining
            await other.stop()
    assert min(took_s) < 0.8 * SILENT.poll_s, took_s
