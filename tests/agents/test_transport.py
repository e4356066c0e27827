"""End to end: the batch transport against the embedded broker and, marked kafka, a real one.

Each test runs real applications with a handler that writes down what it is told; all waits
are for a condition, bounded by `PATIENCE_S`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete
from aiokafka.structs import TopicPartition
from confluent_kafka import Producer

import agents.application
from agents.application import Application, StartFailed, build_app, run
from agents.fetching import MAX_POLL_RECORDS, SESSION_TIMEOUT_S, FetchTimes
from agents.lanes import MAX_BATCHES, Batch
from agents.transport import MAX_RESETS, InputLost, PartitionReset
from infra.embedded import PARTITIONS, EmbeddedBroker
from tests.services import SharedKafka, UniqueName

PATIENCE_S = 30.0
WORKER = Path(__file__).with_name("transport_worker.py")


class Recorder:
    """A handler that remembers, and does what the test asks of it."""

    def __init__(self, start_at: Mapping[int, int] | None = None) -> None:
        self.start_at = start_at or {}
        self.calls: list[tuple[str, Any]] = []
        self.batches: list[Batch] = []
        self.owned: set[TopicPartition] = set()
        self.running: set[TopicPartition] = set()
        self.changed = asyncio.Condition()
        self.before_assigned: Callable[[], Any] | None = None
        self.before_batch: Callable[[Batch], Any] | None = None
        self.before_revoked: Callable[[], Any] | None = None

    async def on_assigned(
        self, partitions: frozenset[TopicPartition]
    ) -> Mapping[TopicPartition, int]:
        await self.note("assigning", partitions)
        if self.before_assigned is not None:
            await self.before_assigned()
        self.owned |= partitions
        await self.note("assigned", partitions)
        return {p: self.start_at[p.partition] for p in partitions if p.partition in self.start_at}

    async def on_batch(self, batch: Batch) -> None:
        assert batch.partition in self.owned, "a batch of a partition that is not ours"
        assert batch.partition not in self.running, "two batches of one partition at once"
        self.running.add(batch.partition)
        try:
            if self.before_batch is not None:
                await self.before_batch(batch)
        finally:
            self.running.discard(batch.partition)
        self.batches.append(batch)
        await self.note("batch", batch.partition)

    async def on_revoked(self, partitions: frozenset[TopicPartition]) -> None:
        assert not self.running & partitions, "revoked under a running batch"
        if self.before_revoked is not None:
            await self.before_revoked()
        self.owned -= partitions
        await self.note("revoked", partitions)

    async def note(self, what: str, detail: Any) -> None:
        self.calls.append((what, detail))
        async with self.changed:
            self.changed.notify_all()

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_S), self.changed:
            await self.changed.wait_for(condition)

    def values(self, partition: int) -> list[bytes]:
        return [
            record.value
            for batch in self.batches
            if batch.partition.partition == partition
            for record in batch.records
        ]

    def read(self) -> int:
        return sum(len(batch.records) for batch in self.batches)

    def ticks(self, partition: int) -> list[Batch]:
        return [
            batch
            for batch in self.batches
            if not batch.records and batch.partition.partition == partition
        ]

    def has(self, what: str) -> bool:
        return any(call == what for call, _ in self.calls)


@contextlib.asynccontextmanager
async def application(
    bootstrap: str, topics: list[str], handler: Recorder, group: str
) -> AsyncIterator[Application]:
    """An application that runs for the length of the block; what it raised is raised."""
    app = build_app(group, bootstrap, topics, handler)
    stop = asyncio.Event()
    running = asyncio.create_task(run(app, stop))
    try:
        yield app
    finally:
        stop.set()
        async with asyncio.timeout(PATIENCE_S):
            await running


async def run_to_failure(bootstrap: str, topic: str, handler: Recorder) -> None:
    async with asyncio.timeout(PATIENCE_S):
        await run(build_app(topic, bootstrap, [topic], handler), asyncio.Event())


def produce(bootstrap: str, topic: str, each: int, partitions: int = PARTITIONS) -> None:
    """The values 0, 1, … into each partition."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
    for number in range(each):
        for partition in range(partitions):
            producer.produce(
                topic, b"%d" % number, key=b"k", partition=partition, headers=[("h", b"1")]
            )
    assert producer.flush(PATIENCE_S) == 0


def numbers(first: int, end: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, end)]


@pytest.fixture
def topic(embedded_broker: EmbeddedBroker, unique_name: UniqueName) -> str:
    name = unique_name("raw")
    embedded_broker.make_topic(name)
    return name


def test_nothing_flows_before_on_assigned_is_done_and_then_from_where_it_says(
    embedded_broker: EmbeddedBroker, topic: str
) -> None:
    async def scenario() -> None:
        produce(embedded_broker.bootstrap, topic, 50)
        handler = Recorder(start_at={0: 20, 1: 0})
        may_go_on = asyncio.Event()
        handler.before_assigned = may_go_on.wait
        async with application(embedded_broker.bootstrap, [topic], handler, topic) as app:
            await handler.until(lambda: handler.has("assigning"))
            produce(embedded_broker.bootstrap, topic, 1)  # a round trip to the broker
            assert not handler.batches
            assert app.open_partitions == frozenset()
            may_go_on.set()
            await handler.until(lambda: handler.read() == PARTITIONS * 51 - 20)
            assert len(app.open_partitions) == PARTITIONS
        assert handler.values(0) == [*numbers(20, 50), b"0"]
        for partition in range(1, PARTITIONS):  # 1 by its offset, the others unnamed
            assert handler.values(partition) == [*numbers(0, 50), b"0"]
        assert handler.batches[0].records[0].headers == (("h", b"1"),)

    asyncio.run(scenario())


def test_batches_are_whole_and_in_order_and_at_the_end_there_are_ticks(
    embedded_broker: EmbeddedBroker, topic: str, unique_name: UniqueName
) -> None:
    empty = unique_name("empty")
    embedded_broker.make_topic(empty)
    each = 2 * MAX_POLL_RECORDS

    async def scenario() -> None:
        started_ns = time.time_ns()
        produce(embedded_broker.bootstrap, topic, each)
        handler = Recorder()
        async with application(embedded_broker.bootstrap, [topic, empty], handler, topic):
            await handler.until(lambda: handler.read() == PARTITIONS * each)
            await handler.until(lambda: len(handler.ticks(0)) >= 10)
        now_ns = time.time_ns()
        for partition in range(PARTITIONS):
            assert handler.values(partition) == numbers(0, each)
        of_empty = [batch for batch in handler.batches if batch.partition.topic == empty]
        assert {batch.next_offset for batch in of_empty} == {0}
        assert len({batch.partition for batch in of_empty}) == PARTITIONS
        last: dict[TopicPartition, int] = {}
        for batch in handler.batches:
            assert len(batch.records) <= MAX_POLL_RECORDS
            if batch.records:
                assert batch.next_offset == batch.records[-1].offset + 1
            if batch.caught_up_at_ns is not None:
                assert batch.next_offset == batch.high_watermark
                assert started_ns < batch.caught_up_at_ns < now_ns
                assert batch.caught_up_at_ns >= last.get(batch.partition, 0)
                last[batch.partition] = batch.caught_up_at_ns
            else:
                assert batch.records
                assert batch.next_offset < batch.high_watermark

    asyncio.run(scenario())


def test_a_slow_partition_holds_up_itself_only(embedded_broker: EmbeddedBroker, topic: str) -> None:
    each = 4 * MAX_POLL_RECORDS

    async def scenario() -> None:
        produce(embedded_broker.bootstrap, topic, each)
        handler = Recorder()
        released = asyncio.Event()

        async def hold(batch: Batch) -> None:
            if batch.partition.partition == 0:
                await released.wait()

        handler.before_batch = hold
        async with application(embedded_broker.bootstrap, [topic], handler, topic) as app:
            await handler.until(lambda: handler.read() == (PARTITIONS - 1) * each)
            await handler.until(lambda: len(handler.ticks(1)) >= 3)
            held = app.batches._lanes[TopicPartition(topic, 0)]
            assert held.expected <= MAX_BATCHES
            assert handler.values(0) == []
            released.set()
            await handler.until(lambda: handler.read() == PARTITIONS * each)
        assert handler.values(0) == numbers(0, each)

    asyncio.run(scenario())


@pytest.mark.parametrize("where", ["on_assigned", "on_batch", "on_revoked"])
def test_an_exception_of_the_handler_ends_the_run_with_it(
    embedded_broker: EmbeddedBroker, topic: str, where: str
) -> None:
    async def fail(*_: Any) -> None:
        raise ZeroDivisionError(where)

    async def scenario() -> None:
        produce(embedded_broker.bootstrap, topic, 1)
        handler = Recorder()
        stop = asyncio.Event()
        if where == "on_assigned":
            handler.before_assigned = fail
        elif where == "on_batch":
            handler.before_batch = fail
        else:
            handler.before_revoked = fail
        app = build_app(topic, embedded_broker.bootstrap, [topic], handler)
        running = asyncio.create_task(run(app, stop))
        if where == "on_revoked":
            await handler.until(lambda: handler.read() == PARTITIONS)
            stop.set()
        with pytest.raises(ZeroDivisionError, match=where):
            async with asyncio.timeout(PATIENCE_S):
                await running

    asyncio.run(scenario())


def test_a_reset_restores_and_reads_again_and_not_for_ever(
    embedded_broker: EmbeddedBroker, topic: str
) -> None:
    async def scenario() -> None:
        produce(embedded_broker.bootstrap, topic, 10)
        handler = Recorder(start_at={2: 3})
        resets = 0
        wanted = 2

        async def reset(batch: Batch) -> None:
            nonlocal resets
            if batch.partition.partition == 2 and resets < wanted:
                resets += 1
                raise PartitionReset("as after an abort")

        handler.before_batch = reset
        async with application(embedded_broker.bootstrap, [topic], handler, topic):
            await handler.until(lambda: handler.read() == PARTITIONS * 10 - 3)
        assert handler.values(2) == numbers(3, 10)
        of_two = frozenset({TopicPartition(topic, 2)})
        told = [what for what, detail in handler.calls if detail == of_two]
        assert told == ["revoked", "assigning", "assigned"] * 2

        endless = Recorder()
        wanted, resets = 1_000_000, 0
        endless.before_batch = reset
        with pytest.raises(PartitionReset):
            await run_to_failure(embedded_broker.bootstrap, topic, endless)
        assert resets == MAX_RESETS + 1

    asyncio.run(scenario())


def test_stop_is_quick_lets_the_batch_end_and_revokes(
    embedded_broker: EmbeddedBroker, topic: str
) -> None:
    async def scenario() -> None:
        produce(embedded_broker.bootstrap, topic, 10)
        handler = Recorder()
        begun, released = asyncio.Event(), asyncio.Event()

        async def hold(batch: Batch) -> None:
            if batch.records and batch.partition.partition == 0:
                begun.set()
                await released.wait()

        handler.before_batch = hold
        stop = asyncio.Event()
        app = build_app(topic, embedded_broker.bootstrap, [topic], handler)
        running = asyncio.create_task(run(app, stop))
        async with asyncio.timeout(PATIENCE_S):
            await begun.wait()
        stop.set()
        stopped_at = time.monotonic()
        async with asyncio.timeout(PATIENCE_S):
            while app.batches.flow_active:
                await asyncio.sleep(0)
        for _ in range(100):  # turns of the loop in which on_revoked could come too early
            await asyncio.sleep(0)
        assert not handler.has("revoked")
        released.set()
        async with asyncio.timeout(PATIENCE_S):
            await running
        assert time.monotonic() - stopped_at < 2.0
        assert handler.values(0) == numbers(0, 10)
        assert handler.calls[-1][0] == "revoked"
        assert not handler.owned

    asyncio.run(scenario())


def test_stop_while_restoring_cancels_the_restore_and_revokes(
    embedded_broker: EmbeddedBroker, topic: str
) -> None:
    async def scenario() -> None:
        handler = Recorder()
        handler.before_assigned = asyncio.Event().wait  # for ever
        stop = asyncio.Event()
        app = build_app(topic, embedded_broker.bootstrap, [topic], handler)
        running = asyncio.create_task(run(app, stop))
        await handler.until(lambda: handler.has("assigning"))
        stop.set()
        async with asyncio.timeout(PATIENCE_S):
            await running
        assert [what for what, _ in handler.calls] == ["assigning", "revoked"]

    asyncio.run(scenario())


def test_brokers_and_topics_that_are_not_there_are_reported(
    embedded_broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agents.application, "START_TIMEOUT_S", 0.0)

    async def scenario(bootstrap: str) -> None:
        await run(build_app("nobody", bootstrap, ["never-made"], Recorder()), asyncio.Event())

    with pytest.raises(StartFailed, match=r"no Kafka broker answers at 127\.0\.0\.1:1:"):
        asyncio.run(scenario("127.0.0.1:1"))
    with pytest.raises(StartFailed, match=r"no topic never-made: run `inorder topics create`"):
        asyncio.run(scenario(embedded_broker.bootstrap))


def test_a_fetch_counts_from_when_it_was_asked_for() -> None:
    """A process that sleeps between question and answer must not claim the time between."""

    class State:
        timestamp: int | None = 5

    class Assignment:
        state = State()

        def state_value(self, _: TopicPartition) -> State:
            return self.state

    class Request:
        topics = (("raw", ((0, 0, 0),)),)

    class Fetcher:
        answers_fit = True
        answered_at_ns = 0

        async def _proc_fetch_request(self, assignment: Assignment, *_: Any) -> bool:
            asked_at_ns = time.time_ns()
            while time.time_ns() == asked_at_ns:
                await asyncio.sleep(0)
            self.answered_at_ns = time.time_ns()
            if self.answers_fit:
                assignment.state.timestamp = 1
            return False

    async def scenario() -> None:
        fetcher = Fetcher()
        times = FetchTimes(fetcher)
        partition = TopicPartition("raw", 0)
        await fetcher._proc_fetch_request(Assignment(), 0, Request())
        first = times.asked_at_ns[partition]
        assert 0 < first < fetcher.answered_at_ns
        fetcher.answers_fit = False
        await fetcher._proc_fetch_request(Assignment(), 0, Request())
        assert times.asked_at_ns[partition] == first

    asyncio.run(scenario())


@pytest.mark.kafka
def test_only_committed_records_and_no_tick_while_a_transaction_is_open(
    kafka: SharedKafka, unique_name: UniqueName
) -> None:
    name = unique_name("raw")
    kafka.create_topic(name)

    async def scenario() -> None:
        handler = Recorder()
        producer = AIOKafkaProducer(bootstrap_servers=kafka.bootstrap, transactional_id=name)
        await producer.start()
        try:
            async with application(kafka.bootstrap, [name], handler, name):
                await handler.until(lambda: bool(handler.ticks(0)))
                await producer.begin_transaction()
                await producer.send_and_wait(name, b"aborted")
                await producer.abort_transaction()
                await handler.until(lambda: handler.ticks(0)[-1].next_offset == 2)  # + marker
                await producer.begin_transaction()
                await producer.send_and_wait(name, b"committed")
                open_at_ns = time.time_ns()
                await asyncio.sleep(0.5)  # ten ticks' time; that none comes is the point
                assert not [
                    tick for tick in handler.ticks(0) if (tick.caught_up_at_ns or 0) > open_at_ns
                ]
                await producer.commit_transaction()
                await handler.until(lambda: handler.ticks(0)[-1].next_offset == 4)
            assert handler.values(0) == [b"committed"]
        finally:
            await producer.stop()

    asyncio.run(scenario())


@pytest.mark.kafka
def test_what_retention_took_is_told_and_a_topic_made_anew_ends_the_run(
    kafka: SharedKafka, unique_name: UniqueName
) -> None:
    name = unique_name("raw")
    kafka.create_topic(name)
    partition = TopicPartition(name, 0)

    async def scenario() -> None:
        produce(kafka.bootstrap, name, 100, partitions=1)
        admin = AIOKafkaAdminClient(bootstrap_servers=kafka.bootstrap)
        await admin.start()
        await admin.delete_records({partition: RecordsToDelete(before_offset=60)})
        await admin.close()
        handler = Recorder(start_at={0: 10})
        async with application(kafka.bootstrap, [name], handler, name):
            await handler.until(lambda: handler.read() == 40)
        assert handler.batches[0].skipped == 50
        assert handler.batches[0].next_offset == 60
        assert handler.values(0) == numbers(60, 100)

        beyond = Recorder(start_at={0: 500})
        with pytest.raises(InputLost, match="made anew"):
            await run_to_failure(kafka.bootstrap, name, beyond)

    asyncio.run(scenario())


@pytest.mark.kafka
def test_a_topic_deleted_under_the_worker_ends_the_run(
    kafka: SharedKafka, unique_name: UniqueName
) -> None:
    name = unique_name("raw")
    kafka.create_topic(name)

    async def delete_once_read(handler: Recorder) -> None:
        await handler.until(lambda: bool(handler.ticks(0)))
        admin = AIOKafkaAdminClient(bootstrap_servers=kafka.bootstrap)
        await admin.start()
        await admin.delete_topics([name])
        await admin.close()

    async def scenario() -> None:
        produce(kafka.bootstrap, name, 10, partitions=1)
        handler = Recorder(start_at={0: 10})
        deleting = asyncio.create_task(delete_once_read(handler))
        with pytest.raises(InputLost, match=r"is gone|made anew"):  # brokers may auto-create
            await run_to_failure(kafka.bootstrap, name, handler)
        await deleting

    asyncio.run(scenario())


@pytest.mark.kafka
def test_a_record_larger_than_every_fetch_size_comes(
    kafka: SharedKafka, unique_name: UniqueName
) -> None:
    name = unique_name("raw")
    kafka.create_topic(name, config={"max.message.bytes": str(24 << 20)})
    size = 18 << 20

    async def scenario() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=kafka.bootstrap, max_request_size=24 << 20)
        await producer.start()
        await producer.send_and_wait(name, b"x" * size)
        await producer.send_and_wait(name, b"after")
        await producer.stop()
        handler = Recorder()
        async with application(kafka.bootstrap, [name], handler, name):
            await handler.until(lambda: handler.read() == 2)
        assert [len(value) for value in handler.values(0)] == [size, 5]

    asyncio.run(scenario())


@pytest.mark.kafka
def test_a_second_worker_takes_its_share_only_after_the_first_let_go(
    kafka: SharedKafka, unique_name: UniqueName
) -> None:
    name = unique_name("raw")
    kafka.create_topic(name, partitions=4)

    async def scenario() -> None:
        first, second = Recorder(), Recorder()
        order: list[str] = []

        async def let_go() -> None:
            await asyncio.sleep(0)
            order.append("first revoked")

        async def take() -> None:
            order.append("second assigned")

        async with application(kafka.bootstrap, [name], first, name):
            await first.until(lambda: len(first.owned) == 4)
            first.before_revoked, second.before_assigned = let_go, take
            async with application(kafka.bootstrap, [name], second, name):
                await second.until(lambda: len(second.owned) == 2)
                await first.until(lambda: len(first.owned) == 2)
                assert order[:2] == ["first revoked", "second assigned"]
                assert not first.owned & second.owned
                produce(kafka.bootstrap, name, 100)
                await first.until(lambda: first.read() == 200)
                await second.until(lambda: second.read() == 200)
            await first.until(lambda: len(first.owned) == 4)

    asyncio.run(scenario())


@pytest.mark.kafka
def test_after_kill_9_the_other_worker_takes_over(
    kafka: SharedKafka, unique_name: UniqueName, tmp_path: Path
) -> None:
    name = unique_name("raw")
    kafka.create_topic(name, partitions=4)
    with contextlib.ExitStack() as stack:
        workers = [
            stack.enter_context(worker(kafka.bootstrap, name, tmp_path / f"{number}.jsonl"))
            for number in range(2)
        ]
        logs = [tmp_path / "0.jsonl", tmp_path / "1.jsonl"]
        wait_for(lambda: [len(owned(log)) for log in logs] == [2, 2])
        workers[0].send_signal(signal.SIGKILL)
        killed_at = time.monotonic()
        wait_for(lambda: len(owned(logs[1])) == 4)
        assert time.monotonic() - killed_at < SESSION_TIMEOUT_S + 6.0
        workers[1].send_signal(signal.SIGTERM)
        assert workers[1].wait(PATIENCE_S) == 0
        assert owned(logs[1]) == set()


@contextlib.contextmanager
def worker(bootstrap: str, topic: str, log: Path) -> Any:
    process = subprocess.Popen(
        [sys.executable, str(WORKER), bootstrap, topic, str(log)],
        env={**os.environ, "PYTHONPATH": str(WORKER.parents[2])},
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait(PATIENCE_S)


def owned(log: Path) -> set[int]:
    """What a worker holds, after the last line that it has written whole."""
    lines = log.read_text().splitlines(keepends=True) if log.exists() else []
    whole = [line for line in lines if line.endswith("\n")]
    return set(json.loads(whole[-1])) if whole else set()


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.05)
