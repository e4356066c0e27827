"""Publish to one topic over a bounded, idempotent connection.

It uses confluent-kafka with `acks=all` and idempotence, so the client's retries neither duplicate
nor reorder records. The partition follows from the murmur2 hash of the key, as in the Java clients.

A broker detects duplicates by a producer's id and a batch's sequence number, neither of which is
authenticated. Anyone who may write the topic can send forged ones first, and the broker then
confirms the honest batch without storing it. Sources that sign expect strangers on the topic, so
their channel is not `is_idempotent`. It sends one request at a time, so that records keep their
order. A retry may leave a duplicate, which readers recognize by its sequence number.

Bounds: at most `queue_records` and `queue_bytes` wait for the broker. If there is no room, `send`
waits `queue_wait_s` and then raises QueueFull. A record that is not acknowledged within
`delivery_timeout_s` has failed. The first `FAILURES_KEPT` failures that are not yet raised are
stored in full, and the others are counted.

A channel that `renews` replaces a client that has ended for good, where that is safe
(`inorder.lasting_client`). Its topic's readers must recognize duplicates.

No failure is silent. `raise_failures` raises the failed deliveries since its last call. A time-out
error includes the last error of the broker connection.

Only the process that created a channel may use it. A forked child has none of the client's threads.
Every call in it raises ForkedError, and the child exits without closing the client.
"""

from __future__ import annotations

import ctypes
import logging
import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from inorder.client import KafkaError, KafkaException, Message, Producer
from inorder.failure import (
    BrokerFatal,
    CallbackError,
    DeliveryFailed,
    Failure,
    FlushTimeout,
    ForkedError,
    QueueFull,
    RecordRefused,
)
from inorder.forked import abandon_at_fork, is_ours
from inorder.lasting_client import POLL_S, Coordinates, LastingClient, Record

FAILURES_KEPT: Final = 100

Settings = Mapping[str, str | int | float | bool]

GUARANTEES: Final[Settings] = {
    "enable.idempotence": True,
    "acks": "all",
    "partitioner": "murmur2_random",
}
ONE_BY_ONE: Final[Settings] = {
    "enable.idempotence": False,
    "max.in.flight.requests.per.connection": 1,
}
"""The settings that replace some of `GUARANTEES` in a channel without idempotence."""

_OURS: Final = frozenset(GUARANTEES) | {
    "request.required.acks",
    "bootstrap.servers",
    "metadata.broker.list",
    "transactional.id",
    "queue.buffering.max.messages",
    "queue.buffering.max.kbytes",
    "delivery.timeout.ms",
    "message.timeout.ms",
    # With this setting, successful deliveries would never be reported.
    "delivery.report.only.error",
    # With the value lifo, records would be sent in an order other than that of their numbers.
    "queuing.strategy",
    "default.topic.config",  # This setting may contain any of the others.
}
logger = logging.getLogger("inorder.producers")


@dataclass(frozen=True, slots=True)
class ChannelLimits:
    """The bounds of a channel.

    Attributes:
        queue_records: The maximum number of records that wait for the broker.
        queue_bytes: The maximum number of bytes that wait for the broker.
        queue_wait_s: The time in seconds for which `send` waits for room, before QueueFull.
        delivery_timeout_s: The time in seconds after which an unacknowledged record has failed.
    """

    queue_records: int = 100_000
    queue_bytes: int = 64 << 20
    queue_wait_s: float = 30.0
    delivery_timeout_s: float = 120.0


class Delivery(NamedTuple):
    """The final report on a record: delivered or failed.

    Attributes:
        source: The source of the event.
        epoch: The source's epoch.
        seq: The event's sequence number.
        partition: The partition of the record, or None after a failure.
        offset: The offset of the record, or None after a failure.
        error: The cause of the failure, or None if the record was delivered.
        may_stand: Whether the record is, or may be, in the topic.
    """

    source: str
    epoch: int
    seq: int
    partition: int | None
    offset: int | None
    error: str | None
    may_stand: bool = True


OnDelivery = Callable[[Delivery], None]
"""A function that receives the report on each record.

It is called in the thread that sends or flushes. It must be quick, and must not call the producer.
"""


class Channel:
    """A connection to one topic, which several threads may share.

    Args:
        brokers: HOST:PORT; several are separated by commas.
        topic: The topic to write.
        limits: The bounds of the queue, and the time limits.
        settings: Settings of librdkafka, except those that the guarantees need.
        on_delivery: A function called with the report on each record.
        is_idempotent: Whether the broker detects the duplicates of retries.
        renews: Whether a client that has ended is replaced, and the records that it dropped are
            sent again.
    """

    def __init__(
        self,
        brokers: str,
        topic: str,
        *,
        limits: ChannelLimits | None = None,
        settings: Settings | None = None,
        on_delivery: OnDelivery | None = None,
        is_idempotent: bool = True,
        renews: bool = False,
    ) -> None:
        """Create the client, which connects in the background.

        Raises:
            ValueError: A setting belongs to the guarantees, or librdkafka refuses it.
        """
        self._topic = topic
        self._own: Settings = GUARANTEES if is_idempotent else {**GUARANTEES, **ONE_BY_ONE}
        self._pid = os.getpid()
        self._limits = limits or ChannelLimits()
        self._on_delivery = on_delivery
        self._guard = threading.Lock()
        self._failures: list[Failure] = []
        self._may_stand_count = 0
        self.failed = 0
        """The number of failures since the last `raise_failures`."""
        self.delivered = 0
        """The number of records that the broker has acknowledged."""
        self._callback_error: Exception | None = None
        self._calling_back = threading.local()
        self._trouble = ""
        configuration = self._make_configuration(brokers, settings or {})
        try:
            self._client = LastingClient(
                lambda: Producer(configuration, logger=logger),
                topic,
                self._handle_delivery,
                renews=renews,
            )
        except KafkaException as error:
            raise ValueError(f"librdkafka refuses the settings: {error.args[0].str()}") from error
        abandon_at_fork(self)

    def send(
        self,
        coordinates: Coordinates,
        key: bytes,
        value: bytes | None,
        headers: list[tuple[str, str | bytes | None]],
        timestamp_ms: int = 0,
    ) -> None:
        """Queue a record, and wait at most `queue_wait_s` for room.

        Args:
            coordinates: The event that the record contains.
            key: The record's key, which determines its partition.
            value: The record's value; None for a control event.
            headers: The record's headers.
            timestamp_ms: The record's timestamp in ms since 1970; 0 is the time of sending.

        Raises:
            QueueFull: There was no room in time. The record was not queued.
            RecordRefused: The record cannot be sent. It was not queued.
            BrokerFatal: The client accepts no more records. This one was not queued.
            ForkedError: The caller is a forked child.
        """
        self._check_process()
        record = Record(coordinates, key, value, headers, timestamp_ms)
        deadline_s: float | None = None
        while True:
            try:
                self._client.produce(record)
                return
            except BufferError:
                now_s = time.monotonic()
                deadline_s = deadline_s or now_s + self._limits.queue_wait_s
                if now_s >= deadline_s:
                    raise QueueFull(self._explain_full()) from None
                self._client.poll(min(POLL_S, deadline_s - now_s))
            except KafkaException as error:
                raise self._make_refusal(coordinates, error) from error

    def poll(self, timeout_s: float = 0.0) -> None:
        """Process delivery reports, and wait up to `timeout_s` for one."""
        self._check_process()
        self._client.poll(timeout_s)

    def flush(self, timeout_s: float) -> None:
        """Wait until all queued records are delivered or have failed.

        Args:
            timeout_s: The maximum wait in seconds.

        Raises:
            FlushTimeout: Some records are neither delivered nor failed after `timeout_s`.
            ForkedError: The caller is a forked child.
        """
        self._check_process()
        waiting = self._client.flush(timeout_s)
        if waiting:
            raise FlushTimeout(
                f"{waiting} record(s) for {self._topic} are neither delivered nor failed after"
                f" {timeout_s:g} s"
                f"{self._trouble}"
            )

    def purge(self) -> None:
        """Drop the records that are not acknowledged yet; each of them counts as failed."""
        self._check_process()
        self._client.purge()

    def is_ours(self) -> bool:
        """Return whether this process created the channel; False in a forked child."""
        return is_ours(self._pid)

    def left_to_parent(self) -> None:
        """Keep the client's object alive in a forked child.

        Otherwise librdkafka would wait for threads that only the parent has, and crash.
        """
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._client.producer))

    def check_caller(self) -> None:
        """Check that the caller may use the channel now.

        Raises:
            ForkedError: The caller is a forked child.
            CallbackError: The caller is `on_delivery`.
        """
        self._check_process()
        if getattr(self._calling_back, "now", False):
            raise CallbackError(
                "on_delivery must not call the producer; call it from another thread"
            )

    def raise_failures(self) -> None:
        """Raise the failures since the last call; each is raised only once.

        Raises:
            DeliveryFailed: Records were not delivered.
            CallbackError: `on_delivery` raised.
        """
        with self._guard:
            failures, self._failures = self._failures, []
            count, self.failed = self.failed, 0
            may_stand, self._may_stand_count = self._may_stand_count, 0
            callback_error, self._callback_error = self._callback_error, None
        if count:
            raise DeliveryFailed(failures, count, may_stand) from callback_error
        if callback_error is not None:
            raise CallbackError(f"on_delivery raised {callback_error!r}") from callback_error

    def _check_process(self) -> None:
        if not self.is_ours():
            raise ForkedError(
                f"this producer for {self._topic} belongs to process {self._pid}, which forked"
                " this one; create another producer here, for another source, or, once the"
                " parent's is closed, for the same source with a higher epoch"
            )

    def _make_configuration(self, brokers: str, settings: Settings) -> dict[str, Any]:
        for name in settings:
            if name in _OURS:
                raise ValueError(
                    f"setting {name!r} belongs to the producer's guarantees or has its own"
                    " argument; leave it out"
                )
        limits = self._limits
        return {
            "linger.ms": 5,
            "compression.type": "lz4",
            **settings,
            **self._own,
            "bootstrap.servers": brokers,
            "queue.buffering.max.messages": limits.queue_records,
            "queue.buffering.max.kbytes": max(1, limits.queue_bytes >> 10),
            "delivery.timeout.ms": int(limits.delivery_timeout_s * 1000),
            "error_cb": self._on_broker_error,
        }

    def _on_broker_error(self, error: KafkaError) -> None:
        self._trouble = f"; the client's last error: {error.str()}"

    def _handle_delivery(
        self, record: Record, error: KafkaError | None, message: Message | None
    ) -> None:
        coordinates = record.coordinates
        may_stand = error is None or record.may_stand
        reason = None if error is None else error.str()
        with self._guard:
            if reason is None:
                self.delivered += 1
            else:
                self.failed += 1
                self._may_stand_count += may_stand
                if len(self._failures) < FAILURES_KEPT:
                    self._failures.append(Failure(*coordinates, reason, may_stand))
        if self._on_delivery is None:
            return
        at: tuple[int | None, int | None] = (None, None)
        if message is not None and reason is None:
            at = message.partition(), message.offset()
        delivery = Delivery(*coordinates, *at, reason, may_stand)
        self._calling_back.now = True
        try:
            self._on_delivery(delivery)
        except Exception as raised:  # noqa: BLE001 - the user's code; raised at the next call
            self._callback_error = raised
        finally:
            self._calling_back.now = False

    def _explain_full(self) -> str:
        limits = self._limits
        return (
            f"{len(self._client)} records wait for {self._topic} (bounds: {limits.queue_records}"
            f" records, {limits.queue_bytes} bytes) and none was sent within"
            f" {limits.queue_wait_s:g}"
            f" s; send more slowly or check the broker{self._trouble}"
        )

    def _make_refusal(
        self, coordinates: Coordinates, error: KafkaException
    ) -> BrokerFatal | RecordRefused:
        cause: KafkaError = self._client.ended or error.args[0]
        name = f"record {coordinates.source}/{coordinates.epoch}/{coordinates.seq}"
        if cause.fatal() or cause.code() == KafkaError._FATAL:
            return BrokerFatal(
                f"{name} was not accepted, and no later one will be: {cause.str()}; repair that,"
                " then close this producer and create a new one"
            )
        return RecordRefused(f"{name} for {self._topic} was not accepted: {cause.str()}")
