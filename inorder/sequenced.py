"""Publish events that can be put back in order.

    with SequencedProducer("broker:9092", "events.raw", "press-7",
                           journal=Path("/var/lib/press-7.journal")) as producer:
        producer.send(b'{"force": 12.5}', type="stroke")

Each record gets the headers by which events are ordered. These are the source, a number that counts
up by one within an epoch, the source's time in nanoseconds, and the epoch. The stream and the type
are added if they are set. All records of a source go to one partition. The Kafka default (murmur2)
chooses it from the key: the source, or the stream if one stage reorders and merges
(`key_by="stream"`). So the sender cannot choose a key for each record.

Guarantees:

* Numbers have no gaps except for records that failed. Each such failure is reported to
  `on_delivery`, and by DeliveryFailed from the next call of `send`, `heartbeat`, `bye`, `flush` or
  `close`. A `send` that raises it has queued nothing; repeat the call.
* No number of an epoch is used twice, even over restarts. With a journal a clean `close` continues
  the count, and any other end begins a new epoch (`inorder.journal`). Without one every start is a
  new epoch, numbered by the wall clock in seconds unless `first_epoch` sets it. Two starts of a
  source within one second, or a clock that is set back between them, need a journal.
* Timestamps never go back or jump while the producer lives, whatever the wall clock does
  (`inorder.anchored_clock`). `ts_ns` sets another timestamp.
* With `signing_key` each record has the signature of its source (`inorder.signature`), which a
  `signed` stream requires. Its retries may leave duplicates, which readers recognize by their
  numbers. The broker cannot detect them safely, because strangers could forge duplicates
  (`inorder.channel`).
* With `sync` the offset of those timestamps is measured in the background (`inorder.sync.client`).
  No fault of the measurement reaches the sender. It covers the producer's own timestamps, not a
  `ts_ns` of another clock.
* With `resend` sent records are stored, and sent again if `inorder resend` asks for them
  (`inorder.resending`). They keep their numbers and timestamps, so readers put them where they
  belong.
* The client ends for good if the broker has lost its account of this producer's batches. Then a new
  client sends the waiting records again, with their numbers (`inorder.lasting_client`). After other
  fatal errors, BrokerFatal names the cause.
* Memory is bounded by `ChannelLimits`. If the queue is full, `send` waits and then raises
  QueueFull. That record has no number and leaves no gap.

There is no guarantee for a record that was taken and not yet delivered: a crash of the process
loses it. `flush` returns when all records are delivered.

Threads may share a producer; numbers, timestamps and the order in the queue agree. After a fork
only the parent may use it. In the child every call raises ForkedError, except `close`, which does
nothing, so that a child may leave a `with`. The lock of the journal needs a POSIX system.

A journal separates two producers on one machine. It does not separate two machines, or two journals
of one source. Kafka's own fencing uses transactions, and would need one for each record. So REORDER
decides: the higher epoch counts. Events of the other epoch are late, with reason `old_epoch`,
counted and reported in the worker's log (docs/guides/connect.md).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal, Self

from inorder.anchored_clock import AnchoredClock, ClockNs
from inorder.channel import Channel, ChannelLimits, OnDelivery, Settings
from inorder.contract import (
    BYE,
    DATA,
    DEFAULT_STREAM,
    HEARTBEAT,
    MAX_SEQ,
    MAX_STREAM_BYTES,
    Contract,
    HeaderContract,
    ascii_fault,
    epoch_fault,
    source_name_fault,
)
from inorder.failure import FlushTimeout, ProducerError, QueueFull
from inorder.header_writer import HeaderWriter
from inorder.journal import Journal
from inorder.lasting_client import Coordinates
from inorder.resending import Answering, Resend, ResendStatus
from inorder.sent_records import Sent, SentRecords
from inorder.signing_keys import SigningKey
from inorder.sync.client import CLOSE_TIMEOUT_S, SyncClient
from inorder.sync.settings import SyncSettings

FLUSH_TIMEOUT_S: Final = 30.0


class SequencedProducer:
    """A producer for one source, which numbers, stamps and publishes the source's events.

    Args:
        brokers: HOST:PORT; several are separated by commas.
        topic: The topic to write.
        source: The name of the source: ASCII, 1 to 256 bytes.
        stream: The stream of the source.
        journal: The file that keeps the numbering over restarts. None: each start is a new
            epoch.
        first_epoch: The epoch of a start without a journal, or with a new one. None: the wall
            clock in seconds.
        key_by: Whether the records' key is the source or the stream.
        headers: The names of the headers, as in the section `headers:` of the topology file.
        limits: The bounds of the queue.
        settings: Settings of librdkafka, for compression, security and the like. Settings that
            the guarantees need are refused.
        on_delivery: A function called with the report on each record.
        clock: The clock that stamps the events, in ns since 1970. None: an `AnchoredClock`.
        sync: A time-sync client of this source, or the settings of one. Its clock stamps the
            events. The producer starts it, and `close` stops it.
        resend: The settings for storing sent records and answering requests for them.
        signing_key: The key of this source, or of a prefix of its name.
    """

    def __init__(
        self,
        brokers: str,
        topic: str,
        source: str,
        *,
        stream: str = DEFAULT_STREAM,
        journal: Path | None = None,
        first_epoch: int | None = None,
        key_by: Literal["source", "stream"] = "source",
        headers: Contract | None = None,
        limits: ChannelLimits | None = None,
        settings: Settings | None = None,
        on_delivery: OnDelivery | None = None,
        clock: ClockNs | None = None,
        sync: SyncClient | SyncSettings | None = None,
        resend: Resend | None = None,
        signing_key: SigningKey | None = None,
    ) -> None:
        """Open the journal and the client, and start the background threads.

        Raises:
            ValueError: A name cannot be a header, or a setting is refused.
            JournalError: The journal or the file of sent records cannot be used.
        """
        _check_names(source, stream)
        if signing_key is not None and not signing_key.speaks_for(source):
            raise ValueError(
                f"{signing_key!r} may not sign for source {source!r}; pass the source's own key"
            )
        self._source = source
        self._stream = stream
        self._key = (source if key_by == "source" else stream).encode()
        self._writer = HeaderWriter(headers or HeaderContract(), signing_key)
        self._sync = _client(sync, source, clock)
        self._clock = self._sync.clock if self._sync else clock or AnchoredClock()
        self._limits = limits or ChannelLimits()
        self._lock = threading.Lock()
        self._closed = False
        self._channel = Channel(
            brokers,
            topic,
            limits=self._limits,
            settings=settings,
            on_delivery=on_delivery,
            is_idempotent=signing_key is None,
            renews=True,  # A duplicate has the same source, epoch and number.
        )
        first = int(time.time()) if first_epoch is None else first_epoch
        if fault := epoch_fault(first):
            raise ValueError(fault)
        self._sent_records = (
            SentRecords(resend.keep, source, stream, resend.keep_bytes) if resend else None
        )
        # The journal is opened last, so no failure above leaves it marked as in use.
        try:
            self._journal = Journal(journal, source, stream, first) if journal else None
        except BaseException:
            if self._sent_records is not None:
                self._sent_records.close()
            raise
        self._epoch, self._next = (
            (self._journal.epoch, self._journal.next_seq) if self._journal else (first, 0)
        )
        self._answering: Answering | None = None
        if resend is not None and self._sent_records is not None:
            self._answering = Answering(
                brokers, resend, self._sent_records, (stream, source), self._put, settings or {}
            )
        if self._sync is not None:
            self._sync.start(self._epoch)

    @property
    def epoch(self) -> int:
        """The epoch of all records of this producer."""
        return self._epoch

    @property
    def next_seq(self) -> int:
        """The sequence number of the next record."""
        return self._next

    @property
    def sync(self) -> SyncClient | None:
        """The client that measures the clock (see its `status`), or None without `sync`."""
        return self._sync

    @property
    def resend(self) -> ResendStatus | None:
        """The counts of requests and of records sent again; None without `resend`."""
        return None if self._answering is None else self._answering.status

    def send(
        self,
        payload: bytes,
        *,
        ts_ns: int | None = None,
        type: str = "",  # noqa: A002 - the contract calls it so
    ) -> int:
        """Queue an event for publication, and return its sequence number.

        Args:
            payload: The value of the record.
            ts_ns: The time of the event by the source's clock, in ns since 1970. None: now.
            type: The type of the event, in printable ASCII.

        Raises:
            DeliveryFailed: *Earlier* records were not delivered. This one was not queued.
            QueueFull: There was no room in time. This record was not queued.
            RecordRefused: This record cannot be sent. It was not queued.
            BrokerFatal: The client accepts no more records.
            ValueError: `type` is not printable ASCII.
        """
        if type and (fault := ascii_fault("type", type)):
            raise ValueError(fault)
        return self._publish(payload, DATA, ts_ns, type)

    def heartbeat(self, *, ts_ns: int | None = None) -> int:
        """Announce that no event older than `ts_ns` follows.

        So readers need not wait for this source up to that time. The announcement takes a sequence
        number like an event.

        Args:
            ts_ns: The time by the source's clock before which no more events follow, in ns since
                1970. None: now.

        Returns:
            The sequence number of the announcement.
        """
        return self._publish(None, HEARTBEAT, ts_ns, "")

    def bye(self, *, ts_ns: int | None = None) -> int:
        """Announce that the source leaves; readers do not wait for it until it sends again.

        The announcement takes a sequence number like an event. `close` does not send it, because a
        source that restarts does not leave.

        Args:
            ts_ns: The time of the announcement, in ns since 1970. None: now.

        Returns:
            The sequence number of the announcement.
        """
        return self._publish(None, BYE, ts_ns, "")

    def flush(self, timeout_s: float = FLUSH_TIMEOUT_S) -> None:
        """Wait until every record that was sent is delivered.

        Args:
            timeout_s: The maximum wait in seconds.

        Raises:
            DeliveryFailed: Some records were not delivered.
            FlushTimeout: Some records are neither delivered nor failed yet.
        """
        self._check_open()
        try:
            self._channel.flush(timeout_s)
        finally:
            self._channel.raise_failures()

    def close(self, timeout_s: float = FLUSH_TIMEOUT_S) -> None:
        """Flush, store the next number in the journal, and end; a second call does nothing.

        Records that are not delivered within `timeout_s` are given up. The numbering continues
        after them, so their numbers are gaps, which readers report.

        Args:
            timeout_s: The maximum wait for deliveries in seconds.

        Raises:
            DeliveryFailed: Some records were not delivered, or were given up.
            JournalError: The journal cannot be written.
        """
        if not self._channel.is_ours():
            return
        self._channel.check_caller()
        with self._lock_publishing():
            if self._closed:
                return
            self._closed = True
        if self._sync is not None:
            self._sync.close(min(timeout_s, CLOSE_TIMEOUT_S))
        if self._answering is not None:
            self._answering.close()
        try:
            self._channel.flush(timeout_s)
        except FlushTimeout:
            self._channel.purge()
        finally:
            if self._journal is not None:
                self._journal.close(self._next)
            if self._sent_records is not None:
                self._sent_records.close()
        self._channel.raise_failures()

    def __enter__(self) -> Self:
        """Return the producer itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the producer."""
        self.close()

    def _publish(self, value: bytes | None, kind: str, ts_ns: int | None, type_: str) -> int:
        self._check_open()
        self._channel.poll()
        self._channel.raise_failures()
        with self._lock_publishing():
            self._check_open()
            seq = self._next
            ts_ns = self._clock() if ts_ns is None else ts_ns
            sent = Sent(self._epoch, seq, ts_ns, type_, kind, value)
            self._put(sent)
            # Only now is the number used up, so a record that was not queued leaves no gap.
            self._next = seq + 1
            if self._sent_records is not None:
                self._sent_records.add(sent)
        return seq

    def _put(self, sent: Sent) -> None:
        """Queue a record, for the first time or again."""
        headers = self._writer.write(
            self._source,
            sent.seq,
            ts_ns=sent.ts_ns,
            epoch=sent.epoch,
            stream=self._stream,
            type=sent.type,
            kind=sent.kind,
            value=sent.payload,
        )
        coordinates = Coordinates(self._source, sent.epoch, sent.seq)
        self._channel.send(coordinates, self._key, sent.payload, headers)

    @contextmanager
    def _lock_publishing(self) -> Iterator[None]:
        """Let one thread publish at a time.

        Raises:
            QueueFull: Other threads have published for longer than `queue_wait_s` and a second.
        """
        if not self._lock.acquire(timeout=self._limits.queue_wait_s + 1.0):
            raise QueueFull(
                f"source {self._source}: other threads are already waiting for the broker"
            )
        try:
            yield
        finally:
            self._lock.release()

    def _check_open(self) -> None:
        self._channel.check_caller()
        if self._closed:
            raise ProducerError(f"the producer of source {self._source} is closed")
        if self._next > MAX_SEQ:
            raise ProducerError(
                f"source {self._source} has used all sequence numbers; begin a new epoch"
            )


def _check_names(source: str, stream: str) -> None:
    fault = (
        source_name_fault(source)
        or ascii_fault("source", source)
        or ascii_fault("stream", stream)
        or (None if stream else "the stream's name is empty")
        or (None if len(stream) <= MAX_STREAM_BYTES else f"stream {stream!r} is too long")
    )
    if fault:
        raise ValueError(fault)


def _client(
    sync: SyncClient | SyncSettings | None, source: str, clock: ClockNs | None
) -> SyncClient | None:
    if not isinstance(sync, SyncClient):
        return None if sync is None else SyncClient(source, sync, clock=clock)
    if sync.source != source:
        raise ValueError(f"the sync client belongs to source {sync.source}, not to {source}")
    if clock is not None and clock is not sync.clock:
        raise ValueError(
            "the sync client measures another clock; pass it the same clock, or pass none here"
        )
    return sync
