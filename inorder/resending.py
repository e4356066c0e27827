"""Answer requests to send records again, in the background.

    Resend(topic="events.resend", keep=Path("/var/lib/press-7.kept"))

`SequencedProducer(resend=...)` then stores the records that it sends (`inorder.sent_records`) and
reads the topic of requests, which `inorder resend` fills from the gap ledger. A request names
sequence numbers of an epoch. Their records, if stored, are published once more, with the same
headers. For readers these are late events (reason `gap`), which correct windows and patterns, or
duplicates of events that arrived after all.

A request has the source's name as its key, and this value in JSON:

    {"stream": "default", "source": "press-7", "epoch": 1700000000, "first": 17, "last": 19}

All partitions are read, from the last answered request on. A source that starts for the first time
begins at their end. At most `per_second` records are sent in a second, so that new records have
room. Closing the producer interrupts an answer, which is repeated from its beginning after the next
start.

Requests for records that are no longer stored, and records that are not requests, are counted and
logged (`inorder.producers`). If a broker is unavailable, the thread waits for it. No fault here
reaches the publisher, except records that could not be delivered.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson

from inorder.client import Consumer, KafkaException, Message, TopicPartition
from inorder.contract import MAX_SEQ
from inorder.failure import ProducerError
from inorder.journal import tuple_of
from inorder.sent_records import Sent, SentRecords

POLL_S: Final = 0.2
AT_ONCE: Final = 100
RETRY_S: Final = 5.0
CLOSE_TIMEOUT_S: Final = 2.0
KEEP_BYTES: Final = 256 << 20

logger = logging.getLogger("inorder.producers")


@dataclass(frozen=True, slots=True)
class Resend:
    """The settings of `SequencedProducer` for sending records again.

    Attributes:
        topic: The topic of requests.
        keep: The file that stores the sent records.
        keep_bytes: The maximum size of the content of that file.
        per_second: The maximum number of records that are sent again in a second.
    """

    topic: str
    keep: Path
    keep_bytes: int = KEEP_BYTES
    per_second: float = 1_000.0

    def __post_init__(self) -> None:
        """Check the bounds.

        Raises:
            ValueError: A bound is not above 0.
        """
        if self.keep_bytes <= 0 or not self.per_second > 0:
            raise ValueError("keep_bytes and per_second must be above 0")


class Request(NamedTuple):
    """A request for the numbers of an epoch from `first` to `last` inclusive."""

    stream: str
    source: str
    epoch: int
    first: int
    last: int

    def value(self) -> bytes:
        """Return the value of the request's record."""
        return orjson.dumps(self._asdict())


def request_of(value: bytes | None) -> Request:
    """Return the request in a record's value.

    Args:
        value: The record's value.

    Raises:
        ValueError: The value is not a request.
    """
    request = tuple_of(value or b"", Request)
    for name in ("epoch", "first", "last"):
        if not 0 <= getattr(request, name) <= MAX_SEQ:
            raise ValueError(f"{name} is not between 0 and {MAX_SEQ}")
    if request.first > request.last:
        raise ValueError("first is greater than last")
    return request


@dataclass(slots=True)
class ResendStatus:
    """Counts of the requests since the start, and of the records sent again.

    Attributes:
        requests: The number of requests for this source.
        resent: The number of records that were sent again.
        unknown: The number of requested records that are not stored.
        unreadable: The number of records in the topic that are not requests.
    """

    requests: int = 0
    resent: int = 0
    unknown: int = 0
    unreadable: int = 0


class Answering:
    """A daemon thread that answers the requests to one source until `close`.

    Attributes:
        status: The counts since the start.
    """

    def __init__(
        self,
        brokers: str,
        wanted: Resend,
        sent_records: SentRecords,
        name: tuple[str, str],
        again: Callable[[Sent], None],
        settings: Mapping[str, Any],
    ) -> None:
        """Start the thread.

        Args:
            brokers: HOST:PORT; several are separated by commas.
            wanted: The settings.
            sent_records: The stored records.
            name: The stream and the source.
            again: A function that publishes a record once more.
            settings: Settings of librdkafka for the consumer.
        """
        self.status = ResendStatus()
        self._wanted = wanted
        self._sent_records = sent_records
        self._stream, self._source = name
        self._again = again
        self._settings = {
            **settings,
            "bootstrap.servers": brokers,
            # The client requires a group id; nothing is ever committed to the group.
            "group.id": f"resend-{self._source}",
            "enable.auto.commit": False,
            # If the next requests have been deleted, reading continues at the topic's first record.
            "auto.offset.reset": "earliest",
            "log_level": 0,
        }
        self._closing = threading.Event()
        self._thread = threading.Thread(
            target=self._run, name=f"resend-{self._source}", daemon=True
        )
        self._thread.start()

    def close(self, timeout_s: float = CLOSE_TIMEOUT_S) -> None:
        """Stop the thread; an answer is interrupted between two records."""
        self._closing.set()
        self._thread.join(timeout_s)

    def _run(self) -> None:
        while not self._closing.is_set():
            try:
                self._listen()
            except (KafkaException, ProducerError) as error:
                logger.warning("requests to send again, topic %s: %s", self._wanted.topic, error)
                self._closing.wait(RETRY_S)

    def _listen(self) -> None:
        consumer = Consumer(self._settings, logger=logger)
        try:
            consumer.assign(self._places(consumer))
            while not self._closing.is_set():
                for message in consumer.consume(AT_ONCE, POLL_S):
                    if (error := message.error()) is not None:
                        if error.fatal() or not error.retriable():
                            raise KafkaException(error)
                        continue
                    if not self._take(message):
                        return
        finally:
            consumer.close()

    def _places(self, consumer: Consumer) -> list[TopicPartition]:
        topic = self._wanted.topic
        parts = consumer.list_topics(topic, timeout=RETRY_S).topics[topic].partitions
        if not parts:
            raise ProducerError("there is no such topic; `inorder topics create` makes it")
        places = []
        for part in parts:
            known = self._sent_records.next_offset_of(part)
            if known is None:
                # The end is read now, because a request that arrives before the first poll must be
                # answered.
                ends = consumer.get_watermark_offsets(TopicPartition(topic, part), timeout=RETRY_S)
                if ends is None:
                    raise ProducerError(f"the end of partition {part} cannot be read")
                known = ends[1]
                self._sent_records.note_answered(part, known)
            places.append(TopicPartition(topic, part, known))
        return places

    def _take(self, message: Message) -> bool:
        """Answer a message; return False if it was interrupted and must be answered again."""
        part, offset = message.partition(), message.offset()
        assert part is not None
        assert offset is not None
        request = self._read(message)
        if request is not None and not self._answer(request):
            return False
        self._sent_records.note_answered(part, offset + 1)
        return True

    def _read(self, message: Message) -> Request | None:
        """Return the request in a message; None if it is for another source or is not a request."""
        if message.key() != self._source.encode():
            return None
        try:
            request = request_of(message.value())
        except ValueError as fault:
            self.status.unreadable += 1
            place = message.topic(), message.partition(), message.offset()
            logger.warning("%s/%s/%s is not a request: %s", *place, fault)
            return None
        is_ours = (request.stream, request.source) == (self._stream, self._source)
        return request if is_ours else None

    def _answer(self, request: Request) -> bool:
        self.status.requests += 1
        sent = 0
        for each in self._sent_records.read_range(request.epoch, request.first, request.last):
            if self._closing.wait(1.0 / self._wanted.per_second):
                return False
            self._again(each)
            sent += 1
        self.status.resent += sent
        wanted = request.last - request.first + 1
        self.status.unknown += wanted - sent
        if sent < wanted:
            logger.warning(
                "%s/%d: %d of the numbers %d to %d were sent again; the others are not stored",
                *(self._source, request.epoch, sent, request.first, request.last),
            )
        return True
