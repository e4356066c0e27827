"""Send records through a client that is replaced after an error that ends it.

librdkafka ends an idempotent client for good if the broker's account of its batches does not fit
any more. That happens after an unclean election of a leader, a restored broker, or records that
retention deleted. The client then drops all that waits and accepts nothing.

A new client has a new producer id and counts its batches from 0, so it works on. It sends the
dropped records again, in the order of their numbers. Some of them may be in the topic already. So
this is safe only if readers recognize duplicates by the records' contents, as by source, epoch and
sequence number.

Only the errors in `RENEWABLE` are about one client. Any other one, such as a missing right, would
meet the next client as well, and the caller has to act. At most `MAX_RENEWALS` clients are made in
a row without a delivery by any of them.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple

from inorder.client import KafkaError, KafkaException, Message, Producer

MAX_RENEWALS: Final = 3
POLL_S: Final = 0.1
DRAIN_S: Final = 5.0
"""The time limit for the reports of a client that has ended."""

CAUSE_POLLS: Final = 10
"""The maximum number of polls for the cause of an end, which the client reports once."""

RENEWABLE: Final = frozenset(
    {
        KafkaError._GAPLESS_GUARANTEE,
        KafkaError.INVALID_PRODUCER_EPOCH,
        KafkaError.INVALID_PRODUCER_ID_MAPPING,
        KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER,
        KafkaError.UNKNOWN_PRODUCER_ID,
    }
)
"""The errors that end one client, and that a new client does not have."""

DROPPED: Final = RENEWABLE | {
    KafkaError._FATAL,
    KafkaError._PURGE_INFLIGHT,
    KafkaError._PURGE_QUEUE,
}
"""The errors of the records that an ending client drops."""

NOT_TAKEN: Final = frozenset(
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
"""Errors of records that were certainly not written: never sent, or refused by the broker.

After any other error, such as a time-out, the record may be in the topic. The Python binding does
not report whether librdkafka sent it.
"""

logger = logging.getLogger("inorder.producers")


class Coordinates(NamedTuple):
    """The source, epoch and sequence number of the event that a record contains."""

    source: str
    epoch: int
    seq: int


@dataclass(slots=True, eq=False)
class Record:
    """A record until it is delivered or has failed.

    Attributes:
        coordinates: The event that the record contains.
        key: The record's key.
        value: The record's value, or None.
        headers: The record's headers.
        timestamp_ms: The record's timestamp in ms since 1970; 0 is the time of sending.
        may_stand: Whether the record may be in the topic, after it has failed at least once.
    """

    coordinates: Coordinates
    key: bytes
    value: bytes | None
    headers: list[tuple[str, str | bytes | None]]
    timestamp_ms: int = 0
    may_stand: bool = False


class LastingClient:
    """A client for one topic, which several threads may share.

    Args:
        new: A function that makes a client.
        topic: The topic to write.
        report: A function called with each record, and with its error or its message. It must not
            raise.
        renews: Whether a client that has ended is replaced.
    """

    def __init__(
        self,
        new: Callable[[], Producer],
        topic: str,
        report: Callable[[Record, KafkaError | None, Message | None], None],
        *,
        renews: bool,
    ) -> None:
        """Make the first client, which connects in the background."""
        self._new = new
        self._topic = topic
        self._report = report
        self._renews = renews
        self._guard = threading.RLock()
        self._again: list[Record] = []
        self._is_purging = False
        self._renewals = 0
        self.ended: KafkaError | None = None
        """The error after which no client accepts records."""
        self.producer = new()

    def __len__(self) -> int:
        """Return the number of records that are neither delivered nor failed."""
        return len(self.producer) + len(self._again)

    def produce(self, record: Record) -> None:
        """Queue a record.

        Raises:
            BufferError: There is no room.
            KafkaException: The record is refused, or the client has ended.
        """
        while True:
            producer = self.producer
            try:
                self._produce(producer, record)
                return
            except KafkaException as error:
                if error.args[0].code() != KafkaError._FATAL or self.ended is not None:
                    raise
                self._end(producer, error.args[0])

    def poll(self, timeout_s: float) -> None:
        """Process reports, and wait up to `timeout_s` for one."""
        producer = self.producer
        if (error := _poll(producer, timeout_s)) is not None:
            self._renew(producer, error)

    def flush(self, timeout_s: float) -> int:
        """Wait until all records are delivered or have failed, and return how many have not.

        Records leave when the client's `linger.ms` has passed. The client's own `flush` would send
        them at once, but an end of the client during that call would lose reports.
        """
        deadline_s = time.monotonic() + timeout_s
        while (waiting := len(self)) and (left_s := deadline_s - time.monotonic()) > 0:
            self.poll(min(POLL_S, left_s))
        return waiting

    def purge(self) -> None:
        """Drop the records that are not delivered yet; each of them has failed."""
        with self._guard:
            self._is_purging = True
            try:
                _drain(self.producer)
            finally:
                self._is_purging = False

    def _produce(self, producer: Producer, record: Record) -> None:
        producer.produce(
            self._topic,
            value=record.value,
            key=record.key,
            headers=record.headers,
            timestamp=record.timestamp_ms,
            on_delivery=partial(self._note_report, record),
        )

    def _note_report(self, record: Record, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self._renewals = 0
        else:
            record.may_stand |= error.code() not in NOT_TAKEN
            if self._renews and error.code() in DROPPED and not self._is_purging:
                self._again.append(record)
                return
        self._report(record, error, message)

    def _end(self, producer: Producer, unexplained: KafkaError) -> None:
        """Replace a client that accepts nothing more, once it has reported the cause."""
        for _ in range(CAUSE_POLLS):
            if self.producer is not producer or self.ended is not None:
                return
            self.poll(POLL_S)
        self._renew(producer, unexplained)

    def _renew(self, ended: Producer, error: KafkaError) -> None:
        """Replace the client that has ended with this error, or give up."""
        with self._guard:
            if self.producer is not ended or self.ended is not None:
                return
            _drain(ended)
            # A client that ends does not report the records in their order.
            again, self._again = sorted(self._again, key=lambda each: each.coordinates), []
            if self._renews and error.code() in RENEWABLE and self._renewals < MAX_RENEWALS:
                self._renewals += 1
                producer = self._new()
                for record in again:
                    self._produce(producer, record)
                self.producer = producer
                logger.warning(
                    "a new client for %s sends %d records again, because the former one has"
                    " ended: %s",
                    *(self._topic, len(again), error.str()),
                )
                return
            self.ended = error
        for record in again:
            self._report(record, error, None)


def _poll(producer: Producer, timeout_s: float) -> KafkaError | None:
    """Process reports, and return the error that has ended the client, if it is reported now."""
    try:
        producer.poll(timeout_s)
    except KafkaException as raised:
        error: KafkaError = raised.args[0]
        if not error.fatal():
            raise
        return error
    return None


def _drain(producer: Producer) -> None:
    """Drop what waits in a client, and process the reports."""
    producer.purge(in_queue=True, in_flight=True, blocking=True)
    deadline_s = time.monotonic() + DRAIN_S
    while len(producer) and time.monotonic() < deadline_s:
        _poll(producer, POLL_S)
