"""Connects to the brokers, lists their topics, and provides consumers without a group."""

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
from agents.kafka.whole_batches import install_codec

log = logging.getLogger(__name__)

TIMEOUT_S: Final = 30.0
TRY_S: Final = 5.0
"""Time limit of one attempt while waiting for brokers; each attempt is logged."""

REFUSED_S: Final = 1.0
"""Time limit of the first attempt, in which a client tries all servers, most of them twice.

If every server is down, the search ends after this time, so a mistyped address is reported early.
"""

PAUSE_S: Final = 1.0
NO_TOPIC_ID: Final = "AAAAAAAAAAAAAAAAAAAAAA"
"""Sixteen bytes of 0: the answer of brokers that have no topic ids."""

EMBEDDED_CLUSTER: Final = "mockCluster"
"""Prefix of the cluster id of librdkafka's in-process broker."""


class BrokersUnavailable(Exception):
    """No broker answers, or a request failed; the message says where, and how to repair it."""


@dataclass(frozen=True, slots=True)
class Brokers:
    """The address of the brokers and the security settings for them.

    The embedded broker rewrites transactional batches without a new checksum, so `check_crcs` is
    off for it. It also creates any topic whose metadata a client requests.
    """

    servers: str
    is_embedded: bool
    security: Security = PLAINTEXT

    @property
    def client(self) -> dict[str, Any]:
        """Connection settings for every aiokafka client."""
        return {"bootstrap_servers": self.servers, **self.security.to_aiokafka()}

    @asynccontextmanager
    async def reader(self, fetch_max_wait_ms: int = 500) -> AsyncIterator[AIOKafkaConsumer]:
        """Start a consumer without a group that reads committed records, and stop it at the end.

        The broker delays an empty answer by up to `fetch_max_wait_ms`. An unreadable record is
        returned as an empty one.
        """
        install_codec()
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

    def count_partitions(self, topics: Iterable[str]) -> dict[str, int]:
        """Return the number of partitions of each topic, 0 for one that does not exist. Blocks."""
        if self.is_embedded:  # The embedded broker creates a topic that is requested by name.
            asking = _Asking(self.servers, self.security)
            return {topic: asking.count_partitions(topic)[topic] for topic in topics}
        known = self.topics()
        return {topic: known.get(topic, 0) for topic in topics}

    def topics(self) -> dict[str, int]:
        """Return the number of partitions of each visible topic. Blocks."""
        return _Asking(self.servers, self.security).count_partitions()

    def find_hidden(self, topics: Iterable[str]) -> list[str]:
        """Return the topics that the brokers refuse to describe, whether they exist or not. Blocks.

        Such topics are absent from `topics`, as are those that do not exist.
        """
        if self.is_embedded:
            return []
        admin = admin_client(self.servers, self.security)
        asked = admin.describe_topics(TopicCollection(list(topics)), request_timeout=TIMEOUT_S)
        return [topic for topic, answer in asked.items() if _is_refused(answer.exception())]

    def topic_ids(self, topics: Iterable[str]) -> dict[str, str]:
        """Return the ids that distinguish a topic from a later one with the same name. Blocks.

        The embedded broker and brokers before 2.8 have no ids.
        """
        if self.is_embedded:
            return {}
        admin = admin_client(self.servers, self.security)
        asked = admin.describe_topics(TopicCollection(list(topics)), request_timeout=TIMEOUT_S)
        try:
            found = {
                topic: format_topic_id(answer.result().topic_id) for topic, answer in asked.items()
            }
        except KafkaException as error:
            text = error.args[0].str()
            raise BrokersUnavailable(
                f"{self.servers} does not describe its topics: {text}"
            ) from error
        return {topic: topic_id for topic, topic_id in found.items() if topic_id}


def _is_refused(error: BaseException | None) -> bool:
    refused = KafkaError.TOPIC_AUTHORIZATION_FAILED
    return isinstance(error, KafkaException) and error.args[0].code() == refused


def admin_client(servers: str, security: Security, **more: Any) -> AdminClient:
    """Return a client that describes and alters topics; `more` are settings of librdkafka."""
    settings = {**security.to_librdkafka(), "bootstrap.servers": servers, "log_level": 0}
    return AdminClient(settings | more)


def format_topic_id(topic_id: object) -> str:
    """Return a topic's id as text, or "" if the broker has none."""
    return "" if str(topic_id) == NO_TOPIC_ID else str(topic_id)


def find_brokers(
    servers: str,
    security: Security = PLAINTEXT,
    waits: Callable[[BrokersUnavailable, float], None] = lambda *_: None,
) -> Brokers:
    """Find the brokers; raise BrokersUnavailable if no server answers within `TIMEOUT_S`. Blocks.

    After a failed first attempt, `waits` is called with the error and the remaining seconds, which
    are used for a second attempt.
    """
    deadline_s = time.monotonic() + TIMEOUT_S
    try:
        return _find_brokers_once(servers, security)
    except BrokersUnavailable as absent:
        left_s = deadline_s - time.monotonic()
        if left_s <= 0:
            raise
        waits(absent, left_s)
        return _find_brokers_once(servers, security, left_s)


def _find_brokers_once(servers: str, security: Security, wait_s: float = 0.0) -> Brokers:
    """Find the brokers in one attempt, which lasts up to `wait_s`, or `TRY_S` if that is 0.

    If `wait_s` is 0 and every server is known to be down, the attempt ends after `REFUSED_S`.
    """
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
    """Find the brokers like `find_brokers`, in at least one attempt and for up to `wait_s`.

    Each attempt is logged, so that a name that cannot be resolved is visible at once.
    """
    deadline_s = time.monotonic() + wait_s
    while True:
        try:
            return await asyncio.to_thread(_find_brokers_once, servers, security)
        except BrokersUnavailable as absent:
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                raise BrokersUnavailable(f"{absent}; waited for {wait_s:.0f} s") from absent
            log.warning("waiting for brokers, at most %.0f s more: %s", left_s, absent)
            await asyncio.sleep(min(PAUSE_S, left_s))


class _Asking:
    """A client for metadata requests.

    `all_are_down` is valid after a failed request: it says whether the client could reach no
    server.
    """

    def __init__(self, servers: str, security: Security) -> None:
        if security.bearer is not None:
            try:
                security.bearer.current()
            except TokenUnavailable as error:  # librdkafka itself would not report a missing token.
                raise BrokersUnavailable(f"no token for {servers}: {error}") from error
        self._servers = servers
        self._trouble = ""
        self.all_are_down = False
        self._client = admin_client(servers, security, error_cb=self._note)

    def count_partitions(self, topic: str | None = None) -> dict[str, int]:
        """Return the number of partitions of each topic, or of `topic` only."""
        found = self.describe(TIMEOUT_S, topic).topics
        return {name: len(described.partitions) for name, described in found.items()}

    def describe(self, timeout_s: float, topic: str | None = None) -> Any:
        """Return the cluster's metadata, or raise BrokersUnavailable if none arrives in time."""
        try:
            return self._client.list_topics(topic, timeout=timeout_s)
        except KafkaException as error:
            self._client.poll(0)  # Polling delivers the client's own errors.
            raise BrokersUnavailable(
                f"no broker answers at {self._servers} within {timeout_s:.0f} s; check --brokers"
                f"{self._trouble}"
            ) from error

    def _note(self, error: KafkaError) -> None:
        if error.code() == KafkaError._ALL_BROKERS_DOWN:  # This error does not give the cause.
            self.all_are_down = True
        else:
            self._trouble = f" ({error.str()})"
