"""A bounded, idempotent way to one topic, shared by what publishes.

On confluent-kafka: `acks=all`, idempotent (no copy and no swap by the client's own
retries), murmur2 of the key for the partition, as the Java clients do it.

A broker finds a copy by the producer's id and number in a batch, which nobody proves: who may write
the topic can send them first, and the broker confirms the honest batch without storing it. Where
the topic has strangers, for sources that sign, the channel is not `is_idempotent`: one request is
on its way at a time, so that nothing is swapped, and a retry may leave a copy, which the reader
knows by its number.

Bounds: at most `queue_records` and `queue_bytes` wait for the broker; beyond that
`send` waits `queue_wait_s`, then raises QueueFull. A record not acknowledged within
`delivery_timeout_s` has failed. The first `FAILURES_KEPT` failures
not yet raised are kept whole, the rest counted.

Nothing fails in silence: a failed delivery is raised by the next `raise_failures`,
an error of the broker connection is named in the next time-out.

Only the process that made a channel may use it. A forked child has none of the client's
threads: there every call raises ForkedError, and the child ends without ending the client.
"""

from __future__ import annotations

import ctypes
import logging
import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
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
from inorder.forked import is_ours, left_at_fork

FAILURES_KEPT: Final = 100
POLL_S: Final = 0.1
PURGE_S: Final = 5.0

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
"""In the place of the same names above, without idempotence."""

_OURS: Final = frozenset(GUARANTEES) | {
    "request.required.acks",
    "bootstrap.servers",
    "metadata.broker.list",
    "transactional.id",
    "queue.buffering.max.messages",
    "queue.buffering.max.kbytes",
    "delivery.timeout.ms",
    "message.timeout.ms",
    "delivery.report.only.error",  # what is delivered would never be reported
    "queuing.strategy",  # lifo: not in the order of the numbers
    "default.topic.config",  # holds any of these
}
_NOT_TAKEN: Final = frozenset(
    {
        KafkaError._PURGE_QUEUE,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.INVALID_RECORD,
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.POLICY_VIOLATION,
        KafkaError.RECORD_LIST_TOO_LARGE,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
    }
)
"""Never sent, or refused by the broker. After all others, a time-out first of all, nobody
knows: the client's binding does not pass on what librdkafka knows of it."""

logger = logging.getLogger("inorder.producers")


@dataclass(frozen=True, slots=True)
class ChannelLimits:
    """See the module's docstring."""

    queue_records: int = 100_000
    queue_bytes: int = 64 << 20
    queue_wait_s: float = 30.0
    delivery_timeout_s: float = 120.0


class Coordinates(NamedTuple):
    """Which event a record carries."""

    source: str
    epoch: int
    seq: int


class Delivery(NamedTuple):
    """What became of a record. `error` None: it is at `partition`, `offset`; else `may_stand` is
    whether it may be in the topic all the same."""

    source: str
    epoch: int
    seq: int
    partition: int | None
    offset: int | None
    error: str | None
    may_stand: bool = True


OnDelivery = Callable[[Delivery], None]
"""Called from the thread that sends or flushes; must be quick and not call back."""


class Channel:
    """Usable from several threads. `settings` are librdkafka's, for what is not a guarantee."""

    def __init__(
        self,
        brokers: str,
        topic: str,
        *,
        limits: ChannelLimits | None = None,
        settings: Settings | None = None,
        on_delivery: OnDelivery | None = None,
        is_idempotent: bool = True,
    ) -> None:
        self._topic = topic
        self._own: Settings = GUARANTEES if is_idempotent else {**GUARANTEES, **ONE_BY_ONE}
        self._pid = os.getpid()
        self._limits = limits or ChannelLimits()
        self._on_delivery = on_delivery
        self._guard = threading.Lock()
        self._failures: list[Failure] = []
        self._may_stand_count = 0
        self.failed = 0
        """Failures not yet raised."""
        self.delivered = 0
        """Records acknowledged by the broker."""
        self._callback_error: Exception | None = None
        self._calling_back = threading.local()
        self._trouble = ""
        configuration = self._configuration(brokers, settings or {})
        try:
            self._producer = Producer(configuration, logger=logger)
        except KafkaException as error:
            raise ValueError(f"librdkafka refuses the settings: {error.args[0].str()}") from error
        left_at_fork(self)

    def send(
        self,
        coordinates: Coordinates,
        key: bytes,
        value: bytes | None,
        headers: list[tuple[str, str | bytes | None]],
    ) -> None:
        """Take the record, waiting `queue_wait_s` at most for room.

        QueueFull, RecordRefused, BrokerFatal: it was not taken.
        """
        self._check_process()
        deadline_s: float | None = None
        while True:
            try:
                self._producer.produce(
                    self._topic,
                    value=value,
                    key=key,
                    headers=headers,
                    on_delivery=partial(self._delivery, coordinates),
                )
                return
            except BufferError:
                now_s = time.monotonic()
                deadline_s = deadline_s or now_s + self._limits.queue_wait_s
                if now_s >= deadline_s:
                    raise QueueFull(self._full()) from None
                self._producer.poll(min(POLL_S, deadline_s - now_s))
            except KafkaException as error:
                raise self._not_taken(coordinates, error) from error

    def poll(self, timeout_s: float = 0.0) -> None:
        """Serve delivery reports, waiting up to `timeout_s` for one."""
        self._check_process()
        self._producer.poll(timeout_s)

    def flush(self, timeout_s: float) -> None:
        """Until all taken records are delivered or failed; FlushTimeout if that is too long."""
        self._check_process()
        waiting = self._producer.flush(timeout_s)
        if waiting:
            raise FlushTimeout(
                f"{waiting} record(s) for {self._topic} still on their way after {timeout_s:g} s"
                f"{self._trouble}"
            )

    def purge(self) -> None:
        """Give up what has not been acknowledged; each such record counts as failed."""
        self._check_process()
        self._producer.purge(in_queue=True, in_flight=True, blocking=True)
        self._producer.flush(PURGE_S)

    def is_ours(self) -> bool:
        """Whether this process made the channel, and not the one that forked it."""
        return is_ours(self._pid)

    def left_to_parent(self) -> None:
        """The client is never freed here: librdkafka would wait for threads that only the
        parent has, and crash."""
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._producer))

    def check_caller(self) -> None:
        """ForkedError in a forked child, CallbackError from inside `on_delivery`."""
        self._check_process()
        if getattr(self._calling_back, "now", False):
            raise CallbackError("on_delivery must not call the producer; hand over to a thread")

    def raise_failures(self) -> None:
        """Raise what has gone wrong since the last call, once."""
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
                " this one; make a producer of its own here, for another source, or, once the"
                " parent's is closed, for the same source with a higher epoch"
            )

    def _configuration(self, brokers: str, settings: Settings) -> dict[str, Any]:
        for name in settings:
            if name in _OURS:
                raise ValueError(
                    f"setting {name!r} belongs to the producer's guarantees or has an argument of"
                    " its own; leave it out"
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
            "error_cb": self._broker_error,
        }

    def _broker_error(self, error: KafkaError) -> None:
        self._trouble = f"; the client's last error: {error.str()}"

    def _delivery(
        self, coordinates: Coordinates, error: KafkaError | None, message: Message
    ) -> None:
        may_stand = error is None or error.code() not in _NOT_TAKEN
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
        at = (message.partition(), message.offset()) if reason is None else (None, None)
        delivery = Delivery(*coordinates, *at, reason, may_stand)
        self._calling_back.now = True
        try:
            self._on_delivery(delivery)
        except Exception as raised:  # noqa: BLE001 - the user's code; raised at the next call
            self._callback_error = raised
        finally:
            self._calling_back.now = False

    def _full(self) -> str:
        limits = self._limits
        return (
            f"{len(self._producer)} records wait for {self._topic} (bounds: {limits.queue_records}"
            f" records, {limits.queue_bytes} bytes) and none left within {limits.queue_wait_s:g}"
            f" s; send more slowly or check the broker{self._trouble}"
        )

    def _not_taken(
        self, coordinates: Coordinates, error: KafkaException
    ) -> BrokerFatal | RecordRefused:
        cause: KafkaError = error.args[0]
        name = f"record {coordinates.source}/{coordinates.epoch}/{coordinates.seq}"
        if cause.fatal() or cause.code() == KafkaError._FATAL:
            return BrokerFatal(f"{name} not taken, nor any later one: {cause.str()}")
        return RecordRefused(f"{name} for {self._topic} not taken: {cause.str()}")
