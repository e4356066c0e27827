"""Examples: what a queue does with the batch under work when it is closed."""

from __future__ import annotations

import asyncio
import time

from aiokafka.structs import TopicPartition

from agents.kafka.partition_queue import End, PartitionQueue, PolledBatch

SOURCE = TopicPartition("raw", 0)


async def closed(*, is_waiting: bool) -> tuple[bool, float]:
    """Whether the batch ended in time, and how long that took."""

    async def work(batch: PolledBatch) -> None:
        batch.is_waiting = is_waiting
        await asyncio.sleep(60.0 if is_waiting else 0.3)

    queue = PartitionQueue(SOURCE, work, lambda: None, lambda queue, exc: None)
    queue.put(PolledBatch(SOURCE, [], End(1, 1)))
    await asyncio.sleep(0.01)
    began_s = time.monotonic()
    return await queue.close(10.0), time.monotonic() - began_s


async def test_a_batch_is_awaited_if_something_of_it_is_begun() -> None:
    ended, took_s = await closed(is_waiting=False)
    assert ended
    assert took_s > 0.2
    ended, took_s = await closed(is_waiting=True)
    assert ended
    assert took_s < 5
