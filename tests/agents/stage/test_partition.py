"""Examples: what fails half way is never committed, and the next owner begins before it."""

from __future__ import annotations

import asyncio
import gc
import sys
import weakref
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.structs import TopicPartition
from prometheus_client import CollectorRegistry

from agents.kafka.brokers import Brokers
from agents.kafka.log_reader import LogReader
from agents.kafka.partition_queue import Batch
from agents.stage.arrangement import arrange, topics_of
from agents.stage.delivery import Checkpoint
from agents.stage.partition import Partition
from agents.stage.surroundings import Surroundings
from agents.state import changelog
from agents.state.changelog import StateRefused
from agents.watch.metrics import Metrics
from tests.agents.records import FakeBatch, FakeRecord
from topology.config import parse, query_of

SOURCE = TopicPartition("events.raw", 0)
TOPOLOGY = "streams: {default: {}}\nstages: [reorder+merge]\ncheckpoint: 1ms\nstate: memory\n"


class Delivery:
    """Keeps what is committed."""

    def __init__(self) -> None:
        self.committed: list[Checkpoint] = []

    def new_batch(self) -> FakeBatch:
        return FakeBatch()

    async def commit(self, checkpoint: Checkpoint) -> int:
        self.committed.append(checkpoint)
        return len(self.committed)

    async def stop(self) -> None:
        return


def partition_of(delivery: Any, text: str = TOPOLOGY) -> Partition:
    topology = parse(text)
    stage = topology.stages[0]
    arrangement = arrange(topology, stage, dict.fromkeys(topics_of(topology, stage), 1))
    logs = LogReader(Brokers("nowhere:1", is_embedded=False), "group", ())
    around = Surroundings(logs, Metrics(CollectorRegistry()), lambda _: delivery, lambda _: None)
    partition = Partition(SOURCE, arrangement, around)
    partition.is_open = True
    partition.next_offset = 0
    return partition


def batch(offset: int) -> Batch:
    return Batch(SOURCE, [FakeRecord(offset)], offset + 1, offset + 1, None)


def failing(*_: Any) -> Any:
    raise OverflowError("cannot be written")


def in_work(partition: Partition, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(partition.stage, "on_batch", failing)


def in_the_cut(_: Partition, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(changelog, "encoded", failing)


@pytest.mark.parametrize("fails", [in_work, in_the_cut])
def test_nothing_is_committed_after_a_failure(
    fails: Callable[[Partition, pytest.MonkeyPatch], None],
) -> None:
    async def scenario() -> None:
        delivery = Delivery()
        partition = partition_of(delivery)
        await partition.take(batch(0))
        await partition._arrived()
        assert [checkpoint.next_offset for checkpoint in delivery.committed] == [1]
        with pytest.MonkeyPatch.context() as patch:
            fails(partition, patch)
            partition._checkpoint_s = 0.0
            with pytest.raises(OverflowError):
                await partition.take(batch(1))
        await partition.close()
        assert [checkpoint.next_offset for checkpoint in delivery.committed] == [1]

    asyncio.run(scenario())


def test_a_changelog_that_goes_back_is_refused_at_once() -> None:
    """Another one has taken its place, and holds the differences alone."""

    async def scenario() -> None:
        delivery = Delivery()
        partition = partition_of(delivery)
        partition._log_end = 7
        await partition.take(batch(0))
        with pytest.raises(StateRefused, match=r"went back from offset 7 to 1 .*`application:`"):
            await partition._arrived()

    asyncio.run(scenario())


def test_a_graceful_close_commits_what_is_done() -> None:
    async def scenario() -> None:
        delivery = Delivery()
        partition = partition_of(delivery)
        await partition.take(batch(0))
        await partition.take(batch(1))
        await partition.close()
        assert delivery.committed[-1].next_offset == 2

    asyncio.run(scenario())


@pytest.mark.parametrize("how", [Partition.close, Partition.abandon], ids=["closed", "abandoned"])
def test_one_that_goes_is_gone_without_a_collector(how: Callable[[Partition], Any]) -> None:
    """With all that it holds. Whoever still has its metrics does not keep it."""

    async def scenario() -> None:
        partition = partition_of(Delivery())
        await partition.take(Batch(SOURCE, [FakeRecord(0)], 1, 1, None))
        partition.observe()
        await partition._arrived()
        assert len(partition._held)
        metrics, stage = partition._metrics, partition.stage
        kept = weakref.ref(partition)
        await how(partition)
        del partition
        assert kept() is None
        assert sys.getrefcount(stage) == 2  # its name here, and the call's
        assert metrics.spoken == {"default"}

    gc.disable()
    try:
        asyncio.run(scenario())
    finally:
        gc.enable()


def test_of_a_batch_that_takes_long_what_is_done_is_committed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("agents.stage.partition.LONG_S", 0.0)
    monkeypatch.setattr("agents.stage.partition.PIECE", 2)

    async def scenario() -> None:
        delivery = Delivery()
        partition = partition_of(delivery)
        answers = 0

        async def asks() -> None:
            nonlocal answers
            while True:
                await asyncio.sleep(0)
                answers += 1

        asking = asyncio.create_task(asks())
        records = [FakeRecord(offset) for offset in range(5)]
        await partition.take(Batch(SOURCE, records, 9, 9, None))
        asking.cancel()
        assert answers >= 3
        await partition.close()
        assert [checkpoint.next_offset for checkpoint in delivery.committed] == [2, 4, 5]

    asyncio.run(scenario())


def test_it_rests_when_nothing_waits_and_no_event_has_come_for_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario() -> None:
        partition = partition_of(Delivery())
        monkeypatch.setattr("agents.stage.partition.RESTS_AFTER_S", 0.0)
        found = [partition.rests]  # nobody has looked yet
        partition.observe()
        found.append(partition.rests)
        await partition.take(batch(0))
        partition.observe()
        found.append(partition.rests)  # its first event waits for its start to be known
        monkeypatch.setattr("agents.stage.partition.RESTS_AFTER_S", 60.0)
        partition._waits = False
        found.append(partition.rests)
        assert found == [False, True, False, False]
        await partition.close()

    asyncio.run(scenario())


def test_live_queries_that_choose_have_a_price() -> None:
    async def scenario() -> None:
        text = TOPOLOGY.replace("reorder+merge", "reorder+merge+pattern") + "live_queries: true\n"
        partition = partition_of(Delivery(), text)
        asked = {"pattern": "PATTERN SEQ(A a, B b) WITHIN 1 s", "answer": "auto"}
        feed = SimpleNamespace(version=1, queries={"m": query_of(asked, parse(text))}, compiled={})
        assert not partition._price
        partition._queries = feed  # type: ignore[assignment]
        await partition.take(batch(0))
        assert partition._price
        feed.version, feed.queries = 2, {}
        await partition.take(batch(1))
        assert not partition._price
        await partition.close()

    asyncio.run(scenario())
