"""Examples: failed work is never committed; checkpoints follow time and size."""

from __future__ import annotations

import asyncio
import gc
import sys
import time
import weakref
from collections.abc import Callable
from itertools import pairwise
from typing import Any
from unittest.mock import AsyncMock

import pytest
from aiokafka.structs import TopicPartition

from agents.kafka.partition_queue import End, GroupBatch
from agents.stage.checkpoint_size import FIRST_BYTES
from agents.stage.delivery import Checkpoint
from agents.state import changelog
from agents.state.changelog import StateRefused
from agents.task.checkpoints import BACKLOG_S
from agents.task.partition import LONG_S, Partition
from tests.agents.records import (
    FakeBatch,
    FakeRecord,
    arranged,
    batch_of,
    close,
    put_into,
    services_of,
)

SOURCE = TopicPartition("events.raw", 0)
TOPOLOGY = "streams: {default: {}}\nstages: [reorder+merge]\ncheckpoint: 1ms\nstate: memory\n"


class Delivery:
    """A delivery that keeps the committed checkpoints."""

    new_batch = FakeBatch
    stop = AsyncMock()

    def __init__(self) -> None:
        self.committed: list[Checkpoint] = []

    @property
    def offsets(self) -> list[int]:
        return [checkpoint.offsets[SOURCE] for checkpoint in self.committed]

    async def commit(self, checkpoint: Checkpoint) -> int:
        self.committed.append(checkpoint)
        return len(self.committed)


def partition_of(delivery: Any, text: str = TOPOLOGY) -> Partition:
    partition = Partition(SOURCE, arranged(text), services_of("reorder+merge", delivery))
    partition.is_open = True
    partition.state.first.next_offset = 0
    return partition


def batch(offset: int) -> GroupBatch:
    return batch_of(SOURCE, [FakeRecord(offset)], End(offset + 1, offset + 1))


def failing(*_: Any) -> Any:
    raise OverflowError("cannot be written")


@pytest.mark.parametrize("fails", ["in work", "in the cut"])
async def test_failed_work_is_not_committed(fails: str) -> None:
    delivery = Delivery()
    partition = partition_of(delivery)
    await partition.take(batch(0))
    await partition.checkpoints.await_commit()
    assert delivery.offsets == [1]
    with pytest.MonkeyPatch.context() as patch:
        if fails == "in work":
            patch.setattr(partition.state.stage, "on_batch", failing)
        else:
            patch.setattr(changelog, "encode_changes", failing)
        partition.checkpoints.every_s = 0.0
        with pytest.raises(OverflowError):
            await partition.take(batch(1))
    await close(partition)
    assert delivery.offsets == [1]


async def test_changelog_must_not_go_back() -> None:
    """A recreated changelog would hold only the last changes."""

    delivery = Delivery()
    partition = partition_of(delivery)
    partition.checkpoints.log_end = 7
    await partition.take(batch(0))
    with pytest.raises(StateRefused, match=r"went back from offset 7 to 1 .*`application: "):
        await partition.checkpoints.await_commit()


class Logged(Delivery):
    """A delivery with its changelog as a list, where the end of a transaction takes an offset."""

    def __init__(self) -> None:
        super().__init__()
        self.log: list[tuple[bytes, bytes | None] | None] = []

    async def commit(self, checkpoint: Checkpoint) -> int:
        self.log += checkpoint.changes.items()
        self.log.append(None)
        return len(self.log) - 1

    def state(self, since: int) -> dict[bytes, bytes]:
        changes = dict(each for each in self.log[since:] if each is not None)
        return {key: value for key, value in changes.items() if value is not None}


@pytest.mark.parametrize("bound", ["", "MOST_WHOLE", "MOST_WHOLE_BYTES"])
async def test_long_changelog_is_renewed(monkeypatch: pytest.MonkeyPatch, bound: str) -> None:
    """A state with too many entries or bytes is not written again."""
    monkeypatch.setattr(changelog, "LONG", 100)
    if bound:
        monkeypatch.setattr(changelog, bound, 20)
    delivery = Logged()
    partition = partition_of(delivery)

    for offset in range(300):
        source = f"s{min(offset, 30)}".encode()  # the first thirty sources send once
        named = (("sourceId", source), ("seqNum", b"%d" % offset), ("ts", b"5000000"))
        record = FakeRecord(offset, headers=named, timestamp=6 + offset)
        await partition.take(batch_of(SOURCE, [record], End(offset + 1, offset + 1)))
        await partition.settle()
    state = delivery.state(0)
    since = changelog.read_progress(state[changelog.PROGRESS], "", "").since
    assert (since > 0) == (not bound)
    assert delivery.state(since) == state
    assert len(delivery.log) - since < 1_000 or bound


@pytest.mark.parametrize("how", [close, Partition.abandon], ids=["closed", "abandoned"])
def test_released_partition_is_freed(how: Callable[[Partition], Any]) -> None:
    """All memory of the partition is freed, even if its metrics are still referenced."""

    async def scenario() -> None:
        partition = partition_of(Delivery())
        await partition.take(batch_of(SOURCE, [FakeRecord(0)], End(1, 1)))
        partition.observe()
        await partition.checkpoints.await_commit()
        assert len(partition.state.held)
        metrics, stage = partition.metrics, partition.state.stage
        kept = weakref.ref(partition)
        await how(partition)
        del partition
        assert kept() is None
        alone = object()
        assert sys.getrefcount(stage) == sys.getrefcount(alone)  # only these names and the calls
        assert metrics.streams_seen == {"default"}

    gc.disable()
    try:
        asyncio.run(scenario())
    finally:
        gc.enable()


async def test_long_batch_commits_in_pieces(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("agents.task.partition.LONG_S", 0.0)
    monkeypatch.setattr("agents.stage.checkpoint_size.PIECE", 2)
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
    await partition.take(batch_of(SOURCE, records, End(9, 9)))
    asking.cancel()
    assert answers >= 3
    await close(partition)
    assert delivery.offsets == [1, 3, 5]  # the first piece is one record


class SlowClock:
    """A fake clock that only the work on events moves."""

    time = staticmethod(time.time)

    def __init__(self) -> None:
        self.now_s = 0.0

    def monotonic(self) -> float:
        return self.now_s


def numbered(count: int) -> list[FakeRecord]:
    """Return numbered records of one source."""
    return [
        FakeRecord(
            n,
            (("sourceId", b"s1"), ("seqNum", b"%d" % n), ("ts", b"%d" % (10**12 + n))),
            timestamp=10**12 + n,
        )
        for n in range(count)
    ]


async def test_backlog_commits_by_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, delivery = SlowClock(), Delivery()
    monkeypatch.setattr("agents.task.checkpoints.time", clock)
    partition = partition_of(delivery)
    most = partition.checkpoints.size.records
    clock.now_s = BACKLOG_S

    async def offsets_after(offset: int, passed_s: float, unread: int) -> list[int]:
        clock.now_s += passed_s
        end = End(offset + 1, offset + 1 + unread)
        await partition.take(batch_of(SOURCE, [FakeRecord(offset)], end))
        await partition.checkpoints.await_commit()
        return delivery.offsets

    assert await offsets_after(0, 0.0, most) == [1]
    assert await offsets_after(1, BACKLOG_S / 2, most + 1) == [1]
    assert await offsets_after(2, BACKLOG_S / 4, most) == [1, 3]
    assert await offsets_after(3, BACKLOG_S * 3 / 4, most + 1) == [1, 3]
    assert await offsets_after(4, BACKLOG_S / 4, most + 1) == [1, 3, 5]
    await partition.take(batch_of(SOURCE, numbered(5 + most)[5:], End(5 + most, 5 + 3 * most)))
    await partition.checkpoints.await_commit()
    assert delivery.offsets == [1, 3, 5, 5 + most]
    await close(partition)


async def run_two_batches(
    cost_s: float, monkeypatch: pytest.MonkeyPatch
) -> tuple[list[int], list[Any]]:
    """Return the pieces and all outputs of two batches whose records take `cost_s` each.

    Assert that other tasks run between two long pieces.
    """
    clock, delivery, pieces, rounds = SlowClock(), Delivery(), list[int](), 0
    monkeypatch.setattr("agents.task.partition.time", clock)
    trusted = "{default: {reorder: {start: zero}, clock: {unsynced: trust}}}"
    partition = partition_of(delivery, TOPOLOGY.replace("{default: {}}", trusted))
    work = partition.state.stage.on_batch

    def on_batch(events: Any, now_ns: int) -> Any:
        nonlocal rounds
        assert not pieces or pieces[-1] * cost_s < LONG_S or rounds >= 5
        rounds = 0
        clock.now_s += cost_s * len(events)
        pieces.append(len(events))
        return work(events, now_ns)

    async def asks() -> None:
        nonlocal rounds
        while True:
            await asyncio.sleep(0)
            rounds += 1

    monkeypatch.setattr(partition.state.stage, "on_batch", on_batch)
    asking, records = asyncio.create_task(asks()), numbered(1_000)
    for first in (0, 500):
        end = End(first + 500, 1_000)
        await partition.take(batch_of(SOURCE, records[first : first + 500], end))
    asking.cancel()
    await close(partition)
    outputs = [
        (target, put)
        for checkpoint in delivery.committed
        for target, batches in checkpoint.outputs.items()
        for put in put_into(batches)
    ]
    return pieces, outputs


async def test_costly_query_splits_batches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An unsplit piece of 500 records would take a silent minute, and the stage would be killed."""
    cheap, expected = await run_two_batches(1e-6, monkeypatch)
    dear, found = await run_two_batches(0.122, monkeypatch)
    assert max(cheap) > 200
    assert max(dear) * 0.122 < 2 * LONG_S
    assert sum(cheap) == sum(dear) == 1_000
    assert found == expected
    assert len(found) > 900


async def test_large_records_split_commits() -> None:
    """A batch holds 500 records and more; a transaction has a limit in bytes."""

    delivery = Delivery()
    partition = partition_of(delivery, TOPOLOGY.replace("reorder+merge", "reorder, merge"))
    half = b'"' + b"x" * (FIRST_BYTES // 2 - 2) + b'"'
    records = [
        FakeRecord(offset, (("sourceId", b"s1"), ("seqNum", b"%d" % offset), ("ts", b"5")), half)
        for offset in range(9)
    ]
    await partition.take(batch_of(SOURCE, records, End(9, 9)))
    await close(partition)
    taken = [after - before for before, after in pairwise([0, *delivery.offsets])]
    assert taken[:2] == [3, 4]  # A quick commit doubles the next one's limit.
    assert sum(taken) == 9


async def test_idle_partition_rests(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    partition = partition_of(Delivery())
    monkeypatch.setattr("agents.task.partition.RESTS_AFTER_S", 0.0)
    found = [partition.rests]  # not observed yet
    partition.observe()
    found.append(partition.rests)
    await partition.take(batch(0))
    partition.observe()
    found.append(partition.rests)  # The first event waits until the source's start is known.
    monkeypatch.setattr("agents.task.partition.RESTS_AFTER_S", 60.0)
    partition.waits = False
    found.append(partition.rests)
    assert found == [False, True, False, False]
    await close(partition)
