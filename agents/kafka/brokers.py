"""The brokers: what they are, which topics they have, and plain readers of them."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from aiokafka import AIOKafkaConsumer
from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient

from agents.kafka.bearer import TokenUnavailable
from agents.kafka.security import PLAINTEXT, Security
from agents.kafka.whole_batches import read_by_codec

log = logging.getLogger(__name__)

TIMEOUT_S: Final = 30.0
TRY_S: Final = 5.0
"""For one answer while brokers are waited for; each try is logged."""

REFUSED_S: Final = 1.0
"""By then a client has tried the addresses of all servers, most of them twice: if none was up, a
try ends here, and a mistyped address is reported so much sooner."""

PAUSE_S: Final = 1.0
NO_TOPIC_ID: Final = "AAAAAAAAAAAAAAAAAAAAAA"
"""Sixteen bytes of 0: what brokers say that know of no ids."""

EMBEDDED_CLUSTER: Final = "mockCluster"
"""How librdkafka's broker in the process names its cluster."""


class BrokersUnavailable(Exception):
    """No broker answers, or they did not do as asked; the message says where, and what to do."""


@dataclass(frozen=True, slots=True)
class Brokers:
    """Where the brokers are. The embedded one rewrites transactional batches without
    renewing their checksum, so `check_crcs` is off there; it makes a topic when asked
    for it."""

    servers: str
    is_embedded: bool
    security: Security = PLAINTEXT

    @property
    def client(self) -> dict[str, Any]:
        """The settings by which every aiokafka client reaches them."""
        return {"bootstrap_servers": self.servers, **self.security.aiokafka()}

    @asynccontextmanager
    async def reader(self, fetch_max_wait_ms: int = 500) -> AsyncIterator[AIOKafkaConsumer]:
        """A consumer without a group, started, and stopped at the end: reads what is
        committed. The broker holds an empty answer back for `fetch_max_wait_ms`. A record that
        cannot be read is one with nothing in it."""
        read_by_codec()
        consumer = AIOKafkaConsumer(
            **self.client,
            isolation_level="read_committed",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            check_crcs=not self.is_embedded,
            fetch_max_wait_ms=fetch_max_wait_ms,
        )
        await consumer.start()
        try:
            yield consumer
        finally:
            await consumer.stop()

    def partitions(self, topics: Iterable[str]) -> dict[str, int]:
        """How many partitions each topic has, 0 where there is none. Blocks."""
        if self.is_embedded:  # asked for a topic by its name it makes it
            asking = _Asking(self.servers, self.security)
            return {topic: asking.partitions(topic)[topic] for topic in topics}
        known = self.topics()
        return {topic: known.get(topic, 0) for topic in topics}

    def topics(self) -> dict[str, int]:
        """Return all topics that may be seen, with their partitions. Blocks."""
        return _Asking(self.servers, self.security).partitions()

    def topic_ids(self, topics: Iterable[str]) -> dict[str, str]:
        """The ids that distinguish a topic from one of the same name made later; of the embedded
        broker, and of brokers before 2.8, nothing does. Blocks."""
        if self.is_embedded:
            return {}
        admin = admin_client(self.servers, self.security)
        asked = admin.describe_topics(TopicCollection(list(topics)), request_timeout=TIMEOUT_S)
        try:
            found = {topic: known_id(answer.result().topic_id) for topic, answer in asked.items()}
        except KafkaException as error:
            text = error.args[0].str()
            raise BrokersUnavailable(
                f"{self.servers} does not describe its topics: {text}"
            ) from error
        return {topic: topic_id for topic, topic_id in found.items() if topic_id}


def admin_client(servers: str, security: Security, **more: Any) -> AdminClient:
    """Return a client that describes topics and alters them; `more` settings of librdkafka."""
    settings = {**security.librdkafka(), "bootstrap.servers": servers, "log_level": 0}
    return AdminClient(settings | more)


def known_id(topic_id: object) -> str:
    """A topic's id as text; "" where the broker knows of none."""
    return "" if str(topic_id) == NO_TOPIC_ID else str(topic_id)


def brokers_at(
    servers: str,
    security: Security = PLAINTEXT,
    waits: Callable[[BrokersUnavailable, float], None] = lambda *_: None,
) -> Brokers:
    """BrokersUnavailable if none of the servers answers in time (TIMEOUT_S). `waits` is called with
    what the first try met, and for how many seconds it is tried on. Blocks."""
    deadline_s = time.monotonic() + TIMEOUT_S
    try:
        return _tried(servers, security)
    except BrokersUnavailable as absent:
        left_s = deadline_s - time.monotonic()
        if left_s <= 0:
            raise
        waits(absent, left_s)
        return _tried(servers, security, left_s)


def _tried(servers: str, security: Security, wait_s: float = 0.0) -> Brokers:
    """Try once, for so long, or for `TRY_S`; then for a short time, where every server is known to
    be down."""
    short_s = wait_s or min(REFUSED_S, TRY_S)
    asking = _Asking(servers, security)
    try:
        found = asking.describe(short_s)
    except BrokersUnavailable:
        if asking.all_are_down or short_s >= TRY_S:
            raise
        found = asking.describe(TRY_S - short_s)
    return Brokers(servers, (found.cluster_id or "").startswith(EMBEDDED_CLUSTER), security)


async def await_brokers(servers: str, security: Security, wait_s: float) -> Brokers:
    """As `brokers_at`, again and again for `wait_s` (once at least); each try is logged, so
    that a name which cannot be resolved is seen at once."""
    deadline_s = time.monotonic() + wait_s
    while True:
        try:
            return await asyncio.to_thread(_tried, servers, security)
        except BrokersUnavailable as absent:
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                raise BrokersUnavailable(f"{absent}; waited for {wait_s:.0f} s") from absent
            log.warning("waiting for brokers, %.0f s more at most: %s", left_s, absent)
            await asyncio.sleep(min(PAUSE_S, left_s))


class _Asking:
    """A client for metadata. `all_are_down` is known when an answer has failed to come."""

    def __init__(self, servers: str, security: Security) -> None:
        if security.bearer is not None:
            try:
                security.bearer.current()
            except TokenUnavailable as error:  # of which librdkafka would say nothing
                raise BrokersUnavailable(f"no token for {servers}: {error}") from error
        self._servers = servers
        self._trouble = ""
        self.all_are_down = False
        self._client = admin_client(servers, security, error_cb=self._note)

    def partitions(self, topic: str | None = None) -> dict[str, int]:
        """Return the partitions of all topics, or of one."""
        found = self.describe(TIMEOUT_S, topic).topics
        return {name: len(described.partitions) for name, described in found.items()}

    def describe(self, timeout_s: float, topic: str | None = None) -> Any:
        """BrokersUnavailable where no answer comes in time."""
        try:
            return self._client.list_topics(topic, timeout=timeout_s)
        except KafkaException as error:
            self._client.poll(0)  # brings the client's own errors
            raise BrokersUnavailable(
                f"no broker answers at {self._servers} within {timeout_s:.0f} s; check --brokers"
                f"{self._trouble}"
            ) from error

    def _note(self, error: KafkaError) -> None:
        if error.code() == KafkaError._ALL_BROKERS_DOWN:  # which does not say why
            self.all_are_down = True
        else:
            self._trouble = f" ({error.str()})"
