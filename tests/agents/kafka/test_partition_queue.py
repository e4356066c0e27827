"""Examples: a closing queue awaits a batch that has begun, and abandons one that still waits."""

from __future__ import annotations

import asyncio

import pytest
from aiokafka.structs import TopicPartition

from agents.kafka.partition_queue import GroupBatch, GroupQueue, make_single_group

SOURCE = TopicPartition("raw", 0)


@pytest.mark.parametrize("is_waiting", [True, False])
async def test_close_awaits_started_batch(is_waiting: bool) -> None:
    """A batch that has not begun is abandoned."""
    begun, may_end = asyncio.Event(), asyncio.Event()
    done = False

    async def work(batch: GroupBatch) -> None:
        nonlocal done
        batch.is_waiting = is_waiting
        begun.set()
        await may_end.wait()
        done = True

    queue = GroupQueue(make_single_group(SOURCE), work, lambda: None, lambda queue, exc: None)
    queue.put(GroupBatch(SOURCE, []))
    await begun.wait()
    closing = asyncio.create_task(queue.close(60.0))
    if not is_waiting:
        await asyncio.sleep(0.01)
        assert not closing.done()
        may_end.set()
    assert await closing
    assert done is not is_waiting
