"""Send record batches to a broker byte for byte, as a custom client could, and read them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from aiokafka.client import AIOKafkaClient
from aiokafka.errors import for_code
from aiokafka.protocol.fetch import FetchRequest
from aiokafka.protocol.produce import ProduceRequest
from aiokafka.structs import TopicPartition

TIMEOUT_MS = 30_000
MOST_BYTES = 1 << 20


def send_batches(bootstrap: str, topic: str, batches: Sequence[bytes]) -> list[int]:
    """Send the batches to partition 0 one after another, and return their base offsets.

    Raises KafkaError if the broker refuses one.
    """
    return asyncio.run(_send(bootstrap, topic, batches))


def first_batches(bootstrap: str, topic: str) -> bytes:
    """Return the first bytes of partition 0."""
    return asyncio.run(_fetch(bootstrap, topic))


async def _send(bootstrap: str, topic: str, batches: Sequence[bytes]) -> list[int]:
    async with _leader(bootstrap, topic) as (client, leader):
        offsets = []
        for log in batches:
            request = ProduceRequest(None, -1, TIMEOUT_MS, [(topic, [(0, log)])])
            answer = await client.send(leader, request)
            _, code, offset, *_ = answer.topics[0][1][0]
            if code:
                raise for_code(code)
            offsets.append(offset)
        return offsets


async def _fetch(bootstrap: str, topic: str) -> bytes:
    async with _leader(bootstrap, topic) as (client, leader):
        share = [(topic, [(0, 0, MOST_BYTES)])]
        request = FetchRequest(TIMEOUT_MS, 1, MOST_BYTES, 0, share, rack_id="")
        answer = await client.send(leader, request)
        found: bytes = answer.topics[0][1][0][-1]
        return found


@asynccontextmanager
async def _leader(bootstrap: str, topic: str) -> AsyncIterator[tuple[Any, Any]]:
    client = AIOKafkaClient(bootstrap_servers=bootstrap, request_timeout_ms=2 * TIMEOUT_MS)
    await client.bootstrap()
    try:
        await client.set_topics([topic])
        yield client, client.cluster.leader_for_partition(TopicPartition(topic, 0))
    finally:
        await client.close()
