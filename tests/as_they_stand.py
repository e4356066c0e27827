"""Record batches sent to a broker byte for byte, so that a test can send what no client makes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from aiokafka.client import AIOKafkaClient
from aiokafka.protocol.produce import ProduceRequest
from aiokafka.structs import TopicPartition

from tests.codec.logs import batch, record
from tests.waiting import until

NO_NAME = b"\xff"
"""A header name that is not valid UTF-8."""

TIMEOUT_MS = 30_000


def send(servers: str, topic: str, *batches: bytes, partition: int = 0) -> None:
    asyncio.run(_send(servers, topic, partition, batches))


def send_with_no_name(
    servers: str,
    topic: str,
    key: bytes,
    value: bytes | None,
    *headers: tuple[bytes, bytes | None],
) -> None:
    """Send a record with an additional header named NO_NAME."""
    stranger = record(key, value, [*headers, (NO_NAME, b"x")])
    now_ms = int(time.time() * 1000)
    send(servers, topic, batch([stranger], attributes=0, first_ms=now_ms, latest_ms=now_ms))


async def _send(servers: str, topic: str, partition: int, batches: Sequence[bytes]) -> None:
    client = AIOKafkaClient(bootstrap_servers=servers)

    async def leaders() -> list[int]:
        await client.force_metadata_update()
        node = client.cluster.leader_for_partition(TopicPartition(topic, partition))
        return [] if node in (None, -1) else [node]

    await client.bootstrap()
    try:
        await client.add_topic(topic)
        (node,) = await until(leaders)
        for each in batches:
            content = [(topic, [(partition, each)])]
            answer = await client.send(node, ProduceRequest(None, -1, TIMEOUT_MS, content))
            assert answer.topics[0][1][0][1] == 0, answer
    finally:
        await client.close()
