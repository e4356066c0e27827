"""Moves results from a topic into a sink: read, write, then commit, in that order.

The runner reads committed records (`read_committed`) in a consumer group. A batch has at most
`batch_records` records, gathered for at most `batch_wait_s`; the record that reaches `batch_bytes`
is its last. Its results go to the sink and its dead letters to their target. Only then are its
offsets committed. After a crash the batch is read and written again, which leaves the store
unchanged (`sinks.sink`). So delivery is at least once, and the content of the store is exact.

Each record is a result, which is written, or a dead letter with a reason, or a control record
(`sinks.result`), which is counted and skipped. None is dropped. A record above `record_bytes` is a
dead letter, and is not parsed.

Headers are read only where they are needed, because reading a header whose name is not UTF-8 can
crash the process. The client then returns a NULL where Python expects an object.

The runner waits without limit for a store that does not answer, or that refuses everything
(`sinks.refusals`), because it would otherwise lose results. It pauses its partitions and stays in
its group. The same batch is tried again after `retry_pause_s`, then twice that, at most
`max_retry_pause_s`. Each attempt is logged, and is in `counts.trouble`. Meanwhile memory is bounded
by this batch and the records that the client has fetched in advance (`fetched_bytes`).

A partition without a committed offset is read from its beginning. If the topic has deleted the next
record, this is counted as expired and logged as an error. Reading continues with the first existing
record.

Before anything of a new partition is written, its mark in the store is compared with the committed
offset (`sinks.marks`). The same is done if a write finds that marks are lost. A partition to be
read again continues at its mark. Markers of transactions have offsets too. So at the end of the
partition the mark moves to that end, even if no record precedes it.

After `stop`, `run` returns when the current batch is written. If the runner is waiting for the
store, the batch is not committed and will be read again. `run` raises SinkUnusable if the sink
does, and SourceFailed if Kafka permanently refuses the topic.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import methodcaller
from typing import Any, Final, TypeVar

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as Place

from sinks.counts import Counts
from sinks.dead import DeadLetter, DeadLetters
from sinks.marks import Bookmarks
from sinks.refusals import Refusals
from sinks.result import Control, Malformed, Result, parse
from sinks.sink import REFUSED, BegunAnew, Refused, Sink, SinkError, SinkUnavailable

TOO_LARGE: Final = "too_large"
"""Reason of a dead letter for a record above `record_bytes`."""

POLL_S: Final = 0.2
ASK_TIMEOUT_S: Final = 10.0
BEGIN_TIMEOUT_S: Final = 60.0
SESSION_TIMEOUT_S: Final = 6.0
HEARTBEAT_S: Final = 3.0
"""The maximum interval of heartbeats; two fit into a session."""


FOR_GOOD: Final = frozenset(
    {
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
    }
)

T = TypeVar("T")

log = logging.getLogger("inorder.sink")


class SourceFailed(Exception):
    """Kafka refuses further reads; the message states why."""


@dataclass(frozen=True, slots=True)
class RunnerLimits:
    """The limits on batches and memory, and the pauses between retries."""

    batch_records: int = 2_000
    batch_bytes: int = 8 << 20
    batch_wait_s: float = 0.2
    retry_pause_s: float = 1.0
    max_retry_pause_s: float = 30.0
    fetched_bytes: int = 32 << 20
    record_bytes: int = 32 << 20


@dataclass(slots=True)
class Batch:
    """The results, dead letters and next offsets of a batch."""

    results: list[Result] = field(default_factory=list)
    places: dict[int, tuple[int, int]] = field(default_factory=dict)
    """The partition and offset of each result, by the result's identity in memory (`id`)."""

    letters: list[DeadLetter] = field(default_factory=list)
    next_offsets: dict[int, int] = field(default_factory=dict)
    """The offset after the batch, for each partition."""


class Runner:
    """A reader of one topic into one sink; any thread or signal handler may call `stop`."""

    def __init__(
        self,
        consumer: Consumer,
        topic: str,
        sink: Sink,
        bookmarks: Bookmarks,
        dead: DeadLetters,
        limits: RunnerLimits | None = None,
        refusals: Refusals | None = None,
    ) -> None:
        self.counts = Counts()
        self.turned_s = time.monotonic()
        """Monotonic time of the runner's last activity, in seconds."""

        self._consumer = consumer
        self._topic = topic
        self._sink = sink
        self._bookmarks = bookmarks
        self._dead = dead
        self._limits = limits or RunnerLimits()
        self._refusals = refusals or Refusals()
        self._owned: set[int] = set()
        self._to_compare: set[int] = set()
        """The owned partitions whose marks must be compared before a write."""

        self._next: dict[int, int] = {}
        """The next offset of each partition that was read or begun again."""

        self._begun_without: dict[int, int] = {}
        """The number of offsets that were deleted before a partition was compared."""

        self._awaited: dict[int, int] = {}
        """The offset up to which each partition that is read again was read before."""

        self._came_while_paused: list[Message] = []
        self._is_paused = False
        self._stopping = False

    def stop(self) -> None:
        self._stopping = True

    def run(self) -> None:
        self._consumer.subscribe(
            [self._topic],
            on_assign=self._assign,
            on_revoke=self._revoke,
            on_lost=self._revoke,
        )
        try:
            while not self._stopping:
                self.turned_s = time.monotonic()
                batch = self._batch(self._gather())
                if self._write(batch):
                    self._commit(batch)
        except KafkaException as error:
            if not self._stopping:
                raise SourceFailed(f"topic {self._topic}: {error.args[0].str()}") from error
            log.warning("stopped while Kafka did not answer: %s", error.args[0].str())
        finally:
            self._close()

    # -- read ----------------------------------------------------------------------------------

    def _gather(self) -> Sequence[Message]:
        limits = self._limits
        messages, self._came_while_paused = self._came_while_paused, []
        size = sum(map(_size_of, messages))
        deadline_s = time.monotonic() + limits.batch_wait_s
        while not self._stopping and size < limits.batch_bytes:
            left_s = deadline_s - time.monotonic()
            if len(messages) >= limits.batch_records or left_s <= 0:
                break
            # Messages are taken one at a time, because their unpacked size is not known in advance.
            for message in self._consumer.consume(1, left_s):
                messages.append(message)
                size += _size_of(message)
        return messages

    def _batch(self, messages: Sequence[Message]) -> Batch:
        batch = Batch()
        for message in messages:
            error = message.error()
            if error is not None and error.code() == KafkaError._PARTITION_EOF:
                self._reach_end(batch, *_place(message))
                continue
            if error is not None:
                self._note(error, message)
                continue
            self.counts.records += 1
            partition, offset = _place(message)
            self._next[partition] = batch.next_offsets[partition] = offset + 1
            self._add_record(batch, message, partition, offset)
        return batch

    def _add_record(self, batch: Batch, message: Message, partition: int, offset: int) -> None:
        result = self._parse(message)
        if isinstance(result, Malformed):
            batch.letters.append(
                DeadLetter(self._topic, partition, offset, result.reason, result.detail, result.id)
            )
        elif isinstance(result, Control):
            self.counts.control += 1
        else:
            batch.results.append(result)
            batch.places[id(result)] = (partition, offset)

    def _parse(self, message: Message) -> Result | Malformed | Control:
        size, most = _size_of(message), self._limits.record_bytes
        if size > most:
            return Malformed(
                TOO_LARGE, f"key and value take {size} bytes; at most {most} are allowed"
            )
        return parse(message.value(), message.key(), _headers_of(message))

    def _reach_end(self, batch: Batch, partition: int, end: int) -> None:
        """Move the mark of a partition that was read again to its end, after the last marker."""
        if end >= self._awaited.get(partition, end + 1):
            del self._awaited[partition]
            batch.next_offsets[partition] = end

    def _note(self, error: KafkaError, message: Message) -> None:
        if error.code() == KafkaError._AUTO_OFFSET_RESET:
            self._begin(message.partition() or 0)
        elif error.fatal() or error.code() in FOR_GOOD:
            raise SourceFailed(f"topic {self._topic}: {error.str()}")
        else:
            log.warning("topic %s: %s", self._topic, error.str())

    def _begin(self, partition: int) -> None:
        """Start at the first existing record: no offset is committed, or its record is gone."""
        next_ = self._next.get(partition)
        if next_ is None:
            next_ = self._read_committed([partition])[partition]
        low = self._lowest_offset(partition)
        self._read_from(partition, OFFSET_BEGINNING)
        if next_ < 0:
            return
        self._next[partition] = low
        deleted = max(0, low - next_)
        self.counts.expired += deleted
        if partition in self._to_compare:
            self._begun_without[partition] = deleted
        log.error(
            "topic %s, partition %d: the next offset to read, %d, no longer exists; going on"
            " from %d. Raise the topic's retention; if the topic was recreated, empty the store",
            *(self._topic, partition, next_, low),
        )

    def _read_from(self, partition: int, offset: int) -> None:
        # The client raises an error for a partition that is no longer assigned to it.
        if partition not in self._owned:
            return
        self._consumer.incremental_unassign([Place(self._topic, partition)])
        self._consumer.incremental_assign([Place(self._topic, partition, offset)])
        if self._is_paused:
            self._consumer.pause([Place(self._topic, partition)])

    def _read_committed(self, partitions: Sequence[int]) -> dict[int, int]:
        """Return the committed offsets by partition, negative for none."""
        places = [Place(self._topic, partition) for partition in partitions]

        def read_committed() -> dict[int, int]:
            found = self._consumer.committed(places, ASK_TIMEOUT_S)
            for each in found:
                if each.error is not None:
                    raise KafkaException(each.error)
            return {place.partition: each.offset for place, each in zip(places, found, strict=True)}

        return self._retry(read_committed)

    def _lowest_offset(self, partition: int) -> int:
        """Return the lowest existing offset of a partition."""
        place = Place(self._topic, partition)
        low, _ = self._retry(lambda: self._consumer.get_watermark_offsets(place, ASK_TIMEOUT_S))
        return low

    def _retry(self, ask: Callable[[], T]) -> T:
        """Return Kafka's answer.

        Errors are retried, because a broker that has just become the group's coordinator refuses
        first.
        """
        deadline_s = time.monotonic() + BEGIN_TIMEOUT_S
        while True:
            try:
                return ask()
            except KafkaException as error:
                if self._stopping or time.monotonic() > deadline_s:
                    raise
                log.warning(
                    "topic %s: the offset to begin at is not known yet: %s",
                    self._topic,
                    error.args[0].str(),
                )
                time.sleep(POLL_S)

    # -- write ---------------------------------------------------------------------------------

    def _write(self, batch: Batch) -> bool:
        """Write the batch; return False if the runner was stopped before the store accepted it."""
        pause_s = self._limits.retry_pause_s
        while True:
            try:
                self._put(batch)
                break
            except SinkUnavailable as error:
                if self._stopping:
                    log.warning("stopped before the batch was written; it will be read again")
                    return False
                self._pause(error, pause_s)
                pause_s = min(2 * pause_s, self._limits.max_retry_pause_s)
        if self._is_paused:
            self._resume()
        return True

    def _put(self, batch: Batch) -> None:
        self._compare_marks(batch)
        progress = self._bookmarks.progress(batch.next_offsets)
        try:
            refused = self._sink.write(batch.results, progress)
        except BegunAnew:
            self._to_compare |= self._owned
            self._compare_marks(batch)
            raise
        self._bookmarks.note_moved(progress)
        self._refusals.judge(len(batch.results), refused)
        letters = batch.letters + [self._make_letter(batch, each) for each in refused]
        if letters:
            self._dead.write(letters)
        self.counts.written.update(result.op for result in batch.results)
        self.counts.written.subtract(each.result.op for each in refused)
        self.counts.dead.update(letter.reason for letter in letters)

    def _compare_marks(self, batch: Batch) -> None:
        """Compare the marks of new partitions; let the batch commit none that is read again."""
        if not self._to_compare:
            return
        committed = self._read_committed(sorted(self._to_compare))
        again = self._bookmarks.compare({each: max(0, at) for each, at in committed.items()})
        for partition, mark in again.items():
            self._read_again(partition, mark)
            self._awaited[partition] = committed[partition]
            batch.next_offsets.pop(partition, None)
        self._to_compare.clear()
        self._begun_without.clear()

    def _read_again(self, partition: int, mark: int) -> None:
        low = self._lowest_offset(partition)
        if low > mark:
            self._bookmarks.raise_to(partition, low)
        self._next[partition] = max(mark, low)
        self._read_from(partition, max(mark, low))
        self._came_while_paused = [
            each for each in self._came_while_paused if each.partition() != partition
        ]
        self.counts.refills += 1
        log.warning(
            "topic %s, partition %d: reading again from offset %d, because the store lacks results",
            *(self._topic, partition, max(mark, low)),
        )
        if low > mark:
            self.counts.expired += low - mark - self._begun_without.get(partition, 0)
            log.error(
                "topic %s, partition %d: the topic has deleted the offsets from %d up to %d; the"
                " store stays without the results that are there alone",
                *(self._topic, partition, mark, low),
            )

    def _make_letter(self, batch: Batch, refused: Refused) -> DeadLetter:
        result = refused.result
        partition, offset = batch.places[id(result)]
        return DeadLetter(
            self._topic, partition, offset, REFUSED, refused.detail, result.id, result.revision
        )

    def _pause(self, error: SinkUnavailable, pause_s: float) -> None:
        self.counts.waits += 1
        self.counts.trouble = str(error)
        log.warning("nothing is read until the store answers; next try in %g s: %s", pause_s, error)
        if not self._is_paused:
            self._is_paused = True
            self._consumer.pause(self._places())
        deadline_s = time.monotonic() + pause_s
        while not self._stopping and (left_s := deadline_s - time.monotonic()) > 0:
            self.turned_s = time.monotonic()
            message = self._consumer.poll(min(POLL_S, left_s))
            if message is not None:
                self._came_while_paused.append(message)

    def _resume(self) -> None:
        self._is_paused = False
        self._consumer.resume(self._places())
        self.counts.trouble = ""
        log.warning("the store answers again; going on")

    def _commit(self, batch: Batch) -> None:
        """Commit the offsets; if that fails, the batch may be read again, which changes nothing."""
        offsets = [
            Place(self._topic, partition, offset)
            for partition, offset in batch.next_offsets.items()
            if partition in self._owned
        ]
        if not offsets:
            return
        try:
            for place in self._consumer.commit(offsets=offsets, asynchronous=False) or ():
                if place.error is not None:
                    raise KafkaException(place.error)
        except KafkaException as error:
            self.counts.commit_failures += 1
            log.warning("offsets not committed: %s", error.args[0].str())

    # -- partitions ----------------------------------------------------------------------------

    def _places(self) -> list[Place]:
        return [Place(self._topic, partition) for partition in self._owned]

    def _assign(self, consumer: Consumer, places: list[Place]) -> None:
        partitions = {place.partition for place in places}
        self._owned |= partitions
        self._to_compare |= partitions
        for noted in (self._next, self._begun_without, self._awaited):
            for each in partitions:
                noted.pop(each, None)
        consumer.incremental_assign(places)
        if self._is_paused:
            consumer.pause(places)
        log.info("reading partitions %s of %s", sorted(self._owned), self._topic)

    def _revoke(self, _: Consumer, places: list[Place]) -> None:
        partitions = {place.partition for place in places}
        self._owned -= partitions
        self._to_compare -= partitions
        self._bookmarks.forget(partitions)

    def _close(self) -> None:
        """Close the sink, the dead letters and the consumer, even if one of them fails."""
        for name, part in (("sink", self._sink), ("dead letters", self._dead)):
            try:
                part.close()
            except SinkError as error:
                log.warning("%s: %s", name, error)
        self._consumer.close()


def make_consumer(
    brokers: str,
    group: str,
    settings: Mapping[str, Any] | None = None,
    limits: RunnerLimits | None = None,
    session_s: float = SESSION_TIMEOUT_S,
) -> Consumer:
    """Return a consumer for `Runner`; `settings` are librdkafka's, for security.

    A consumer that sends no heartbeat for `session_s` loses its partitions to other members.
    """
    fetched_bytes = (limits or RunnerLimits()).fetched_bytes
    return Consumer(
        {
            **(settings or {}),
            "bootstrap.servers": brokers,
            "group.id": group,
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "partition.assignment.strategy": "cooperative-sticky",
            "session.timeout.ms": int(session_s * 1000),
            "heartbeat.interval.ms": int(min(HEARTBEAT_S, session_s / 2) * 1000),
            "queued.max.messages.kbytes": fetched_bytes >> 10,
            "error_cb": _log_error,
        },
        logger=log,
    )


def _log_error(error: KafkaError) -> None:
    log.warning("Kafka: %s", error.str())


_ASK: Final = methodcaller("headers")
"""Calls `headers` from C, so that Python checks the result and raises a SystemError for an error.
"""


def _headers_of(message: Message) -> Any:
    """Return the headers of a record without a value; None for all others.

    Only these headers are needed. If a name is not UTF-8, the result is None too. The client then
    returns a list with a NULL in it, and any use of it would end the process.
    """
    if message.value() is not None:
        return None
    try:
        return _ASK(message)
    except SystemError:
        return None


def _size_of(message: Message) -> int:
    return len(message.value() or b"") + len(message.key() or b"")


def _place(message: Message) -> tuple[int, int]:
    """Return a record's partition and offset, which a record that was read always has."""
    partition, offset = message.partition(), message.offset()
    assert partition is not None
    assert offset is not None
    return partition, offset
