"""A producer whose events can be put back in order.

    with SequencedProducer("broker:9092", "events.raw", "press-7",
                           journal=Path("/var/lib/press-7.journal")) as producer:
        producer.send(b'{"force": 12.5}', type="stroke")

Every record gets the headers that the reader orders by: the source, a number that
counts up by one within an epoch, the source's time in nanoseconds, the epoch, and where
they are set the stream and the type. All records of a source go to one partition,
chosen by the Kafka default (murmur2) from the key: the source, or the stream where
reorder and merge run fused (`key_by="stream"`). The key is therefore not the sender's
to choose per record.

What is promised:

* Numbers have no holes but for records that failed, and each such failure is reported:
  to `on_delivery`, and by DeliveryFailed from the next call of any method. That call
  has done nothing else: repeat it.
* No number of an epoch is used twice, over restarts too. With a journal a clean
  `close` continues the count, and anything else begins a new epoch; without one
  every start is a new epoch, numbered by the wall clock in seconds (`first_epoch`
  sets it otherwise): two starts of a source within one second, or a clock set back
  between them, need a journal. See `inorder.journal`.
* Stamps never go back or jump while the producer lives, whatever happens to the wall
  clock (`inorder.anchored_clock`); `ts_ns` gives a stamp of the sender's own.
* With `signing_key` each record bears the signature of its source (`inorder.signature`), which a
  stream that is `signed` asks for. Its retries may leave copies, which readers know by their
  numbers: a broker would take a stranger's word for what is a copy (`inorder.channel`).
* With `sync` the offset of those stamps is measured in the background
  (`inorder.sync.client`), and no trouble of that reaches who sends. It holds for the
  producer's own stamps, not for a `ts_ns` of another clock.
* With `resend` what is sent is kept, and sent again where `inorder resend` asks for it
  (`inorder.resending`): under its numbers and stamps, so readers put it where it belongs.
* Memory is bounded: `ChannelLimits`. When the queue is full `send` waits, then raises
  QueueFull; the record then has no number, and leaves no hole.

What is not: a record taken and not yet delivered is lost with the process. `flush`
returns when all are delivered.

Threads may share a producer; numbers, stamps and the order in the queue agree. After
a fork only the parent may use it: in the child every call raises ForkedError, but for
`close`, which does nothing, so that a child may leave a `with`. POSIX only (the journal's
lock).

A journal keeps two producers of one machine apart, not two machines, nor two journals of
one source. Kafka's own fence goes by transactions, which would cost one for each record.
So the reader sees to it: the higher epoch counts, and what comes of the other is late,
reason `old_epoch`, counted and reported in the worker's log (docs/guides/connect.md).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal, Self

from inorder.anchored_clock import AnchoredClock, ClockNs
from inorder.channel import Channel, ChannelLimits, Coordinates, OnDelivery, Settings
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
from inorder.kept import Kept, Sent
from inorder.resending import Answering, Resend, ResendStatus
from inorder.signing_keys import SigningKey
from inorder.sync.client import CLOSE_TIMEOUT_S, SyncClient
from inorder.sync.settings import SyncSettings

FLUSH_TIMEOUT_S: Final = 30.0


class SequencedProducer:
    """See the module's docstring.

    `brokers` is HOST:PORT, several with commas. `headers` says what the section `headers:`
    of the reader's topology file says. `settings` are librdkafka's, for compression,
    security and the like; those the guarantees rest on are refused with ValueError. `sync`: a
    client of this source, whose clock then stamps, or the settings of one; it is started
    here and ended by `close`. `resend`: keep what is sent, and answer requests for it.
    `signing_key`: this source's, or of a prefix of its name.

    Raises ValueError for names that cannot be headers, JournalError for the journal and for
    what is kept.
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
        _check_names(source, stream)
        if signing_key is not None and not signing_key.speaks_for(source):
            raise ValueError(f"{signing_key!r} does not speak for source {source!r}; give its own")
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
        )
        first = int(time.time()) if first_epoch is None else first_epoch
        if fault := epoch_fault(first):
            raise ValueError(fault)
        self._kept = Kept(resend.keep, source, stream, resend.keep_bytes) if resend else None
        # Last, so that nothing that fails above leaves the journal marked as in use.
        try:
            self._journal = Journal(journal, source, stream, first) if journal else None
        except BaseException:
            if self._kept is not None:
                self._kept.close()
            raise
        self._epoch, self._next = (
            (self._journal.epoch, self._journal.next_seq) if self._journal else (first, 0)
        )
        self._answering: Answering | None = None
        if resend is not None and self._kept is not None:
            self._answering = Answering(
                brokers, resend, self._kept, (stream, source), self._put, settings or {}
            )
        if self._sync is not None:
            self._sync.start(self._epoch)

    @property
    def epoch(self) -> int:
        """The epoch all records of this producer bear."""
        return self._epoch

    @property
    def next_seq(self) -> int:
        """The number the next record will get."""
        return self._next

    @property
    def sync(self) -> SyncClient | None:
        """What measures the clock: ask its `status`. None without `sync`."""
        return self._sync

    @property
    def resend(self) -> ResendStatus | None:
        """What was asked for and sent again. None without `resend`."""
        return None if self._answering is None else self._answering.status

    def send(
        self,
        payload: bytes,
        *,
        ts_ns: int | None = None,
        type: str = "",  # noqa: A002 - the contract calls it so
    ) -> int:
        """Publish an event and return its number.

        `ts_ns`: the source's time of the event, ns since the epoch; default is now.
        Returns when the record is queued. Raises DeliveryFailed for *earlier* records;
        QueueFull, RecordRefused or BrokerFatal where this one was not taken.
        """
        if type and (fault := ascii_fault("type", type)):
            raise ValueError(fault)
        return self._publish(payload, DATA, ts_ns, type)

    def heartbeat(self, *, ts_ns: int | None = None) -> int:
        """Announce that nothing older than now follows, so that nobody waits for this source.

        Takes a number like an event and returns it.
        """
        return self._publish(None, HEARTBEAT, ts_ns, "")

    def bye(self, *, ts_ns: int | None = None) -> int:
        """Announce that the source leaves; readers wait for it no more until it sends again.

        Takes a number like an event and returns it. `close` does not announce it by itself:
        a restart is no leave.
        """
        return self._publish(None, BYE, ts_ns, "")

    def flush(self, timeout_s: float = FLUSH_TIMEOUT_S) -> None:
        """Wait until every record sent so far is delivered.

        DeliveryFailed: some were not. FlushTimeout: some are still on their way.
        """
        self._check_open()
        try:
            self._channel.flush(timeout_s)
        finally:
            self._channel.raise_failures()

    def close(self, timeout_s: float = FLUSH_TIMEOUT_S) -> None:
        """Flush, store the next number in the journal, and end; a second call does nothing.

        What is not delivered within `timeout_s` is given up and raised as DeliveryFailed.
        Numbers given up are holes that the reader will report, as they should be: the
        records are lost. So the count goes on after them.
        """
        if not self._channel.is_ours():
            return
        self._channel.check_caller()
        with self._turn():
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
            if self._kept is not None:
                self._kept.close()
        self._channel.raise_failures()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _publish(self, value: bytes | None, kind: str, ts_ns: int | None, type_: str) -> int:
        self._check_open()
        self._channel.poll()
        self._channel.raise_failures()
        with self._turn():
            self._check_open()
            seq = self._next
            ts_ns = self._clock() if ts_ns is None else ts_ns
            sent = Sent(self._epoch, seq, ts_ns, type_, kind, value)
            self._put(sent)
            self._next = seq + 1  # only now: a record that was not taken leaves no hole
            if self._kept is not None:
                self._kept.add(sent)
        return seq

    def _put(self, sent: Sent) -> None:
        """Into the queue, for the first time or again."""
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
    def _turn(self) -> Iterator[None]:
        """One thread at a time; who waits for one that waits for room waits as long."""
        if not self._lock.acquire(timeout=self._limits.queue_wait_s + 1.0):
            raise QueueFull(f"source {self._source}: other threads wait for the broker already")
        try:
            yield
        finally:
            self._lock.release()

    def _check_open(self) -> None:
        self._channel.check_caller()
        if self._closed:
            raise ProducerError(f"the producer of source {self._source} is closed")
        if self._next > MAX_SEQ:
            raise ProducerError(f"source {self._source} has used all numbers; begin a new epoch")


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
        raise ValueError(f"the sync client is that of source {sync.source}, not of {source}")
    if clock is not None and clock is not sync.clock:
        raise ValueError("the sync client measures another clock; give it this one, or none here")
    return sync
