"""Commits checkpoints to Kafka, exactly once or at least once.

Exactly once: each input partition has one transactional producer. Its `transactional_id` names
application, stage, topic and partition, so a new owner fences the old one merely by starting. One
transaction contains the outputs, the state changes and the input offset.

At least once: the outputs are sent first, without a transaction, so they are visible at once. When
they are acknowledged, the state changes and the input offset follow in a separate transaction.
A crash in between sends some outputs again, and the next stage drops those that it has seen. The
transaction is needed for fencing. Without it, the changes of a former owner that wakes from a pause
would mix with the new owner's, and both would lose buffered events.

In both modes the state itself contains the offset at which reading continues. The group's offset is
for people, and distinguishes a lost changelog from a first start (`agents.restore.restoring`).
Within a partition the batches stay in order, and `commit` returns only when the brokers have stored
everything. Every commit is bounded by `COMMIT_TIMEOUT_S`, because the client itself retries without
a bound. A commit that fails leaves the producer unusable and the state of the partition in doubt.
So the owner drops both and restores.

There is one exception, `EndUnanswered`. Everything was sent, and the end of the transaction was
requested once (`agents.kafka.transaction_end`) and not answered. Then `renew` starts a new
producer, which settles the transaction, and the changelog shows the outcome. If it was committed,
the state in memory is right (`agents.task.checkpoints`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple

from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError, MessageSizeTooLargeError, RecordListTooLargeError
from aiokafka.structs import OffsetAndMetadata

import codec
from agents.kafka.refused_rights import find_first_error, refusal_in
from agents.kafka.rights import WRITE
from agents.kafka.transaction_end import Unanswered, send_end_once
from agents.stage.outbox import Outbox

MAX_BATCH_BYTES: Final = 1 << 20
"""Maximum size of a batch for one output partition; a larger record is sent alone."""

COMPRESSION: Final = "snappy"
"""Compression of all batches.

Its output is as small as that of lz4 at its fastest level. It is ten times as fast as lz4 at the
level that aiokafka has fixed, which took a sixth of the worker's time.
"""

PIECE: Final = 5_000
"""Maximum number of changes that are encoded before other tasks get a turn."""

RETRY_BACKOFF_MS: Final = 20
REQUEST_TIMEOUT_MS: Final = 30_000
COMMIT_TIMEOUT_S: Final = 60.0
START_TIMEOUT_S: Final = 60.0
STOP_TIMEOUT_S: Final = 5.0
NO_LIVE_BROKER: Final = "bootstrap"
"""A word of the assertion that fails in the client while it knows no live broker."""

Target = tuple[str, int]
Batches = Mapping[Target, list[Any]]
Sent = list[tuple[str, asyncio.Future[Any]]]
"""Batches in flight: the topic of each, and a future with the broker's answer."""


class CommitFailed(Exception):
    """The commit may or may not have succeeded, so the state in memory must be dropped."""


class CommitRefused(CommitFailed):
    """The brokers refuse a right without which no commit succeeds; the message names it."""


class EndUnanswered(CommitFailed):
    """The commit was sent completely, but its outcome is unknown until `renew`."""


class Checkpoint(NamedTuple):
    """The outputs, state changes and input offsets that become visible together.

    `outputs` go to their topics and `changes` to the changelog partition of the task `source`.
    `offsets` are the next offsets of its input partitions, and go to the consumer group. They are
    in `changes` as well, from which a restart takes them. `needed_from` is the first input offset
    that a restore would read again; None if purging does not need it (`agents.kafka.purging`).
    """

    outputs: Batches
    changes: Mapping[bytes, bytes | None]
    source: TopicPartition
    offsets: Mapping[TopicPartition, int]
    needed_from: int | None = None


@dataclass(eq=False)
class Delivery:
    """The sender of one partition's checkpoints; see the module's docstring.

    `client` has the connection settings of the brokers (`Brokers.client`), and `group` is the
    consumer group whose offsets are committed. The producer of the changelog has the
    `transactional_id`. With `exactly_once` it sends the outputs, too.
    """

    client: Mapping[str, Any]
    transactional_id: str
    group: str
    changelog: Target
    transaction_timeout_ms: int
    exactly_once: bool

    def __post_init__(self) -> None:
        send_end_once()
        self._changes = self._new_producer()
        self._outputs: AIOKafkaProducer | None = None
        if not self.exactly_once:
            self._outputs = _producer(self.client, enable_idempotence=True)

    def _new_producer(self) -> AIOKafkaProducer:
        return _producer(
            self.client,
            transactional_id=self.transactional_id,
            transaction_timeout_ms=self.transaction_timeout_ms,
        )

    @property
    def _producers(self) -> Iterable[AIOKafkaProducer]:
        return filter(None, (self._outputs, self._changes))

    async def start(self) -> None:
        """Start the producers, which fences a former owner."""
        for producer in self._producers:
            await _start(producer, self.transactional_id)

    async def renew(self) -> None:
        """Replace the producer after EndUnanswered.

        When this returns, the transaction is committed or aborted. The brokers refuse anything of
        it that is still in flight.
        """
        before, self._changes = self._changes, self._new_producer()
        await _stop(before)
        await _start(self._changes, self.transactional_id)

    def new_batch(self) -> Any:
        return _new_batch(is_transactional=self.exactly_once)

    async def stop(self) -> None:
        for producer in self._producers:
            await _stop(producer)

    async def commit(self, checkpoint: Checkpoint) -> int:
        """Commit a checkpoint, and return the changelog offset after its changes.

        Raises CommitRefused if a right is missing, and CommitFailed for any other failure.
        """
        try:
            async with asyncio.timeout(COMMIT_TIMEOUT_S):
                return await self._commit(checkpoint)
        except CommitFailed:
            raise
        except Exception as failed:
            error = find_first_error(self._changes, failed)
            if refused := refusal_in(error, WRITE, checkpoint.source.topic):
                raise CommitRefused(refused) from failed
            raise CommitFailed(f"{type(error).__name__}: {error}") from failed

    async def _commit(self, checkpoint: Checkpoint) -> int:
        sent: Sent = []
        if self._outputs is not None:
            await _await_all(await _send(self._outputs, checkpoint.outputs))
        await self._changes.begin_transaction()
        if self._outputs is None:
            sent = await _send(self._changes, checkpoint.outputs)
        position = await self._send_changes(checkpoint.changes)
        # Wait for all answers before adding the offsets. If a partition and the offsets enter one
        # transaction at the same time, the broker refuses the batch for 100 ms.
        await _await_all(sent)
        await self._end_transaction(checkpoint)
        return position

    async def _send_changes(self, changes: Mapping[bytes, bytes | None]) -> int:
        outbox = Outbox(partial(_new_batch, is_transactional=True))
        for number, (key, value) in enumerate(changes.items(), start=1):
            outbox.add(self.changelog, key, value, None, [])
            if not number % PIECE:
                await asyncio.sleep(0)
        batches = outbox.take()
        in_last: int = batches[self.changelog][-1].record_count()
        answers = await _await_all(await _send(self._changes, batches))
        return int(answers[-1].offset) + in_last

    async def _end_transaction(self, checkpoint: Checkpoint) -> None:
        """Add the input offset to the transaction, and commit it."""
        needed_from = checkpoint.needed_from
        said = "" if needed_from is None else str(needed_from)
        offsets = {at: OffsetAndMetadata(next_, said) for at, next_ in checkpoint.offsets.items()}
        await self._changes.send_offsets_to_transaction(offsets, self.group)
        try:
            await self._changes.commit_transaction()
        except Unanswered as unanswered:
            raise EndUnanswered(str(unanswered.args[0])) from unanswered


def transactional_id(group: str, source: TopicPartition) -> str:
    """Return the transactional id of the producer of a task."""
    return f"{group}.{source.topic}.{source.partition}"


async def _start(producer: AIOKafkaProducer, name: str) -> None:
    """Start the producer of this transactional id, which fences a former owner.

    Raises TimeoutError if the id's coordinator does not answer in time, or if no broker is known.
    """
    try:
        async with asyncio.timeout(START_TIMEOUT_S):
            await producer.start()
    except (AssertionError, TimeoutError) as error:
        if isinstance(error, AssertionError) and NO_LIVE_BROKER not in str(error):
            raise
        raise TimeoutError(
            f"the producer of the transactional id {name} is not ready within"
            f" {START_TIMEOUT_S:.0f} s, so a former owner is not fenced: its coordinator is"
            " unavailable; check that the brokers run, and that each partition of"
            " __transaction_state has a leader"
        ) from error


async def fence(client: Mapping[str, Any], ids: Iterable[str]) -> None:
    """Fence the owners of these transactional ids, and end their open transactions."""
    for each in ids:
        producer = _producer(client, transactional_id=each)
        await _start(producer, each)
        await _stop(producer)


async def commit_together(
    client: Mapping[str, Any],
    name: str,
    timeout_ms: int,
    changes: Mapping[Target, Mapping[bytes, bytes | None]],
    offsets: Mapping[str, Mapping[TopicPartition, int]],
    before_end: Callable[[], Awaitable[None]],
) -> None:
    """Commit changes of several changelogs, and offsets of several groups, in one transaction.

    The transactional id is `name`. If `before_end` or anything else raises, nothing is committed.
    Raises EndUnanswered if the end was requested, but the brokers did not answer.
    """
    producer = _producer(client, transactional_id=name, transaction_timeout_ms=timeout_ms)
    await _start(producer, name)
    is_ended = False
    try:
        async with asyncio.timeout(COMMIT_TIMEOUT_S), producer.transaction():
            outbox = Outbox(partial(_new_batch, is_transactional=True))
            for target, entries in changes.items():
                for key, value in entries.items():
                    outbox.add(target, key, value, None, [])
            await _await_all(await _send(producer, outbox.take()))
            for group, at in offsets.items():
                named = {place: OffsetAndMetadata(next_, "") for place, next_ in at.items()}
                # The client adds only the first group of a transaction, unless it knows of none.
                producer._txn_manager._txn_consumer_group = None
                await producer.send_offsets_to_transaction(named, group)
            await before_end()
            is_ended = True
    except (KafkaError, TimeoutError) as failed:
        if is_ended:
            raise EndUnanswered(repr(failed)) from failed
        raise
    finally:
        await _stop(producer)


def _new_batch(*, is_transactional: bool) -> Any:
    return codec.new_batch(MAX_BATCH_BYTES, COMPRESSION, is_transactional=is_transactional)


async def _stop(producer: AIOKafkaProducer) -> None:
    """Stop a producer regularly if possible; otherwise close its connections.

    The next producer's start ends an open transaction. If a commit was cancelled, the client of a
    fenced producer raises InvalidStateError for an answer that nobody awaits.
    """
    try:
        async with asyncio.timeout(STOP_TIMEOUT_S):
            await producer.stop()
    except (TimeoutError, KafkaError, asyncio.InvalidStateError):
        with suppress(TimeoutError):
            async with asyncio.timeout(STOP_TIMEOUT_S):
                await producer.client.close()


async def _send(producer: AIOKafkaProducer, batches: Batches) -> Sent:
    """Send all batches without waiting for answers; those of one partition stay in order."""
    sent: Sent = []
    for (topic, partition), builders in batches.items():
        for builder in builders:
            answer = await producer.send_batch(builder, topic, partition=partition)
            answer.add_done_callback(_retrieve_error)
            sent.append((topic, answer))
    return sent


def _retrieve_error(answer: asyncio.Future[Any]) -> None:
    """Retrieve the error of an answer that nobody awaits.

    If the first part of a commit fails, asyncio would log every other error as never retrieved.
    """
    if not answer.cancelled():
        answer.exception()


async def _await_all(sent: Sent) -> list[Any]:
    """Return the answers to all batches, or raise the first error after all have been answered."""
    answers = await asyncio.gather(*(answer for _, answer in sent), return_exceptions=True)
    for (topic, _), answer in zip(sent, answers, strict=True):
        if isinstance(answer, MessageSizeTooLargeError | RecordListTooLargeError):
            raise CommitFailed(
                f"{topic} does not accept a batch of {MAX_BATCH_BYTES} bytes or one record that is"
                " larger: its max.message.bytes or segment.bytes is too small; `inorder doctor` has"
                " the command"
            ) from answer
        if isinstance(answer, BaseException):
            raise answer
    return answers


def _producer(client: Mapping[str, Any], **own: Any) -> AIOKafkaProducer:
    return AIOKafkaProducer(
        **client,
        linger_ms=0,
        max_batch_size=MAX_BATCH_BYTES,
        compression_type=COMPRESSION,
        retry_backoff_ms=RETRY_BACKOFF_MS,
        request_timeout_ms=REQUEST_TIMEOUT_MS,
        **own,
    )
