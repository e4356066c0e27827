"""How a checkpoint reaches Kafka: exactly once, or at least once.

Exactly once: one transactional producer per input partition. Its `transactional_id`
names application, stage, topic and partition, so that a new owner fences the old one
merely by starting. One transaction holds outputs, state changes and the input offset.

At least once: outputs first, without a transaction, so readers see them at once; when
they are acknowledged, the state changes and the input offset, in a transaction of
their own. A crash in between sends some outputs again, and the next stage drops what it
has seen. The transaction is for the fence: the changes of a former owner that wakes from
a pause would mix with those of the new one, and events held would be lost to both.

Either way the state itself has the offset where reading goes on; the group's offset is for people,
and to distinguish a lost changelog from a first start (agents.stage.restoring). The order inside a
partition is that of the batches, and `commit` returns only when the brokers have it. Every commit
has the bound `COMMIT_TIMEOUT_S`: the client itself retries without one. A commit that fails leaves
the producer unusable and the state of the partition in doubt: the owner drops both and restores.

With one exception. All has been sent, and the end of the transaction was asked for once
(agents.kafka.transaction_end) and not answered: `EndUnanswered`. Then `renew` puts another producer
in the place of this one, which decides the transaction, and the changelog shows how. If it is there
the state in memory is right (agents.stage.checkpoints).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple

from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError, MessageSizeTooLargeError, RecordListTooLargeError
from aiokafka.structs import OffsetAndMetadata

import codec
from agents.kafka.transaction_end import Unanswered, ask_once
from agents.stage.outbox import Outbox

MAX_BATCH_BYTES: Final = 1 << 20
"""One batch of one output partition; a larger record travels alone."""

COMPRESSION: Final = "snappy"
"""As small as lz4 at its quick level, and ten times as quick as lz4 at the level that
aiokafka has fixed, which was a sixth of the worker's time."""

PIECE: Final = 5_000
"""Changes made into batches in one go; then others have their turn."""

RETRY_BACKOFF_MS: Final = 20
REQUEST_TIMEOUT_MS: Final = 30_000
COMMIT_TIMEOUT_S: Final = 60.0
START_TIMEOUT_S: Final = 60.0
STOP_TIMEOUT_S: Final = 5.0

Target = tuple[str, int]
Batches = Mapping[Target, list[Any]]
Sent = list[tuple[str, asyncio.Future[Any]]]
"""Batches on their way: the topic of each, and the future answer."""


class CommitFailed(Exception):
    """The checkpoint may or may not be there; the state in memory is worth nothing now."""


class EndUnanswered(CommitFailed):
    """All of the transaction was sent, and whether it has ended is not known before `renew`."""


class Checkpoint(NamedTuple):
    """What becomes visible together. `needed_from`: the first offset of the input that is read
    again at a restore, where others ask for it (agents.kafka.purging)."""

    outputs: Batches
    changes: Mapping[bytes, bytes | None]
    source: TopicPartition
    next_offset: int
    needed_from: int | None = None


@dataclass(eq=False)
class Delivery:
    """The way of one partition's checkpoints to the brokers; see the module's docstring.

    `client` has how the brokers are reached (`Brokers.client`), `group` is the consumer group that
    the offsets belong to. The producer of the changelog has the `transactional_id`; exactly once it
    sends the outputs, too.
    """

    client: Mapping[str, Any]
    transactional_id: str
    group: str
    changelog: Target
    transaction_timeout_ms: int
    exactly_once: bool

    def __post_init__(self) -> None:
        ask_once()
        self._changes = self._new_changes()
        self._outputs: AIOKafkaProducer | None = None
        if not self.exactly_once:
            self._outputs = _producer(self.client, enable_idempotence=True)

    def _new_changes(self) -> AIOKafkaProducer:
        return _producer(
            self.client,
            transactional_id=self.transactional_id,
            transaction_timeout_ms=self.transaction_timeout_ms,
        )

    @property
    def _producers(self) -> Iterable[AIOKafkaProducer]:
        return filter(None, (self._outputs, self._changes))

    async def start(self) -> None:
        """Get ready to send; a former owner is fenced from here on."""
        await self._start(self._producers)

    async def _start(self, producers: Iterable[AIOKafkaProducer]) -> None:
        try:
            async with asyncio.timeout(START_TIMEOUT_S):
                for producer in producers:
                    await producer.start()
        except TimeoutError:
            raise TimeoutError(
                f"the producer of the transactional id {self.transactional_id} is not ready after"
                f" {START_TIMEOUT_S:.0f} s, so a former owner is not fenced: its coordinator is"
                " away, or does not answer; see that the brokers run, and that each partition of"
                " __transaction_state has a leader"
            ) from None

    async def renew(self) -> None:
        """Take another producer, after EndUnanswered. When this returns the transaction is
        committed or aborted, and what is still on its way of it is refused."""
        before, self._changes = self._changes, self._new_changes()
        await _stop(before)
        await self._start([self._changes])

    def new_batch(self) -> Any:
        return _new_batch(is_transactional=self.exactly_once)

    async def stop(self) -> None:
        for producer in self._producers:
            await _stop(producer)

    async def commit(self, checkpoint: Checkpoint) -> int:
        """Return the changelog offset after the changes. CommitFailed, whatever went wrong."""
        try:
            async with asyncio.timeout(COMMIT_TIMEOUT_S):
                return await self._commit(checkpoint)
        except CommitFailed:
            raise
        except Exception as failed:
            raise CommitFailed(f"{type(failed).__name__}: {failed}") from failed

    async def _commit(self, checkpoint: Checkpoint) -> int:
        sent: Sent = []
        if self._outputs is not None:
            await _all(await _send(self._outputs, checkpoint.outputs))
        await self._changes.begin_transaction()
        if self._outputs is None:
            sent = await _send(self._changes, checkpoint.outputs)
        position = await self._send_changes(checkpoint.changes)
        # All acknowledged before the offsets join: a partition and the offsets entering one
        # transaction at the same time make the broker refuse the batch for 100 ms.
        await _all(sent)
        await self._end(checkpoint)
        return position

    async def _send_changes(self, changes: Mapping[bytes, bytes | None]) -> int:
        outbox = Outbox(partial(_new_batch, is_transactional=True))
        for number, (key, value) in enumerate(changes.items(), start=1):
            outbox.add(self.changelog, key, value, None, [])
            if not number % PIECE:
                await asyncio.sleep(0)
        batches = outbox.take()
        in_last: int = batches[self.changelog][-1].record_count()
        answers = await _all(await _send(self._changes, batches))
        return int(answers[-1].offset) + in_last

    async def _end(self, checkpoint: Checkpoint) -> None:
        """The offset, and the end of the transaction."""
        needed_from = checkpoint.needed_from
        said = "" if needed_from is None else str(needed_from)
        offset = OffsetAndMetadata(checkpoint.next_offset, said)
        await self._changes.send_offsets_to_transaction({checkpoint.source: offset}, self.group)
        try:
            await self._changes.commit_transaction()
        except Unanswered as unanswered:
            raise EndUnanswered(str(unanswered.args[0])) from unanswered


def _new_batch(*, is_transactional: bool) -> Any:
    return codec.new_batch(MAX_BATCH_BYTES, COMPRESSION, is_transactional=is_transactional)


async def _stop(producer: AIOKafkaProducer) -> None:
    """In good order if it can: a successor's start ends the transaction that it has open. Where a
    commit was given up, the client that is fenced answers what nobody awaits: InvalidStateError."""
    try:
        async with asyncio.timeout(STOP_TIMEOUT_S):
            await producer.stop()
    except (TimeoutError, KafkaError, asyncio.InvalidStateError):
        with suppress(TimeoutError):
            async with asyncio.timeout(STOP_TIMEOUT_S):
                await producer.client.close()


async def _send(producer: AIOKafkaProducer, batches: Batches) -> Sent:
    """All batches on their way; a partition's own stay in order."""
    sent: Sent = []
    for (topic, partition), builders in batches.items():
        for builder in builders:
            answer = await producer.send_batch(builder, topic, partition=partition)
            answer.add_done_callback(_look_at)
            sent.append((topic, answer))
    return sent


def _look_at(answer: asyncio.Future[Any]) -> None:
    """Where a commit fails at its first part, nobody asks for the answers to the others;
    each would be logged as an error that was never retrieved."""
    if not answer.cancelled():
        answer.exception()


async def _all(sent: Sent) -> list[Any]:
    """The answers to all; the first error, after every answer has been looked at."""
    answers = await asyncio.gather(*(answer for _, answer in sent), return_exceptions=True)
    for (topic, _), answer in zip(sent, answers, strict=True):
        if isinstance(answer, MessageSizeTooLargeError | RecordListTooLargeError):
            raise CommitFailed(
                f"{topic} does not take a batch of {MAX_BATCH_BYTES} bytes or one record that is"
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
