"""The brokers: what they are, which topics they have, and plain readers of them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from aiokafka import AIOKafkaConsumer
from confluent_kafka import Consumer, KafkaException, Producer

TIMEOUT_S: Final = 30.0
EMBEDDED_CLUSTER: Final = "mockCluster"
"""How librdkafka's broker in the process names its cluster."""


class BrokersUnavailable(Exception):
    """No broker answers; the message says where."""


@dataclass(frozen=True, slots=True)
class Brokers:
    """Where the brokers are. The embedded one rewrites transactional batches without
    renewing their checksum, so `check_crcs` is off there; it makes a topic when asked
    for it."""

    servers: str
    is_embedded: bool

    @property
    def check_crcs(self) -> bool:
        return not self.is_embedded

    @asynccontextmanager
    async def reader(self) -> AsyncIterator[AIOKafkaConsumer]:
        """A consumer without a group, started, and stopped at the end: reads what is
        committed."""
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self.servers,
            isolation_level="read_committed",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            check_crcs=self.check_crcs,
        )
        await consumer.start()
        try:
            yield consumer
        finally:
            await consumer.stop()

    def partitions(self, topics: Iterable[str]) -> dict[str, int]:
        """How many partitions each topic has, 0 where there is none. Blocks."""
        with _Asking(self.servers, may_create=self.is_embedded) as ask:
            return {topic: len(ask.describe(topic).topics[topic].partitions) for topic in topics}


def brokers_at(servers: str) -> Brokers:
    """BrokersUnavailable if none of the servers answers. Blocks."""
    with _Asking(servers, may_create=False) as ask:
        cluster = ask.describe(None).cluster_id or ""
    return Brokers(servers, cluster.startswith(EMBEDDED_CLUSTER))


class _Asking:
    """A client for metadata. A consumer's request makes no topics, a producer's may."""

    def __init__(self, servers: str, may_create: bool) -> None:
        self._servers = servers
        common = {"bootstrap.servers": servers, "log_level": 0}
        self._client: Any = (
            Producer(common) if may_create else Consumer({**common, "group.id": "inorder-asking"})
        )

    def __enter__(self) -> _Asking:
        return self

    def __exit__(self, *_: object) -> None:
        if isinstance(self._client, Consumer):
            self._client.close()

    def describe(self, topic: str | None) -> Any:
        try:
            return self._client.list_topics(topic, timeout=TIMEOUT_S)
        except KafkaException as error:
            raise BrokersUnavailable(
                f"no broker answers at {self._servers} within {TIMEOUT_S:.0f} s; check --brokers"
            ) from error
