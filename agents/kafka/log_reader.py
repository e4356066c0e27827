"""Stretches of many partitions' logs, and offsets of a group, by one client of a stage.

A partition that comes is found again by three questions: what the group has committed, how the
changelog goes on behind the local copy, and what of the input it holds. A client of its own for
each question connects, looks at the cluster, looks for the coordinator, and says good-bye: that
was the longest part of a pause. This one is opened before the stage joins its group, is kept, and
is shared by all partitions; each reads by a fetcher of its own, so that none waits until another
has taken what was fetched.

All read what is committed, unless what was aborted is asked for too. An end is the last stable
offset: nothing below it is undecided, so a stretch up to it can always be read. What is at the end
and nobody reads, a commit's marker, is passed without a record, and the client does not say that it
has been; so it is asked after `LOOK_S`, and while nothing moves ever more seldom, up to
`SLOWEST_LOOK_S`.

The group's offset distinguishes a lost changelog from a first start, so a refusal must not be
taken for "nothing". Brokers refuse at the top of their answer, where the client does not look
(`_Committed`).

Bounds: an answer is waited for `ANSWER_S`, refusals that pass included, and `STALLED_S` while
nothing comes of a stretch; then TimeoutError, which names the place. In memory are a fetch of each
partition that is read at the moment (how many, agents.stage.handler says), of a mebibyte or one
record, one of its batches unpacked, and what its reader has taken.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Collection, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Final

from aiokafka import errors
from aiokafka.client import AIOKafkaClient
from aiokafka.consumer.fetcher import Fetcher
from aiokafka.consumer.group_coordinator import GroupCoordinator
from aiokafka.consumer.subscription_state import SubscriptionState
from aiokafka.errors import KafkaError, KafkaTimeoutError
from aiokafka.structs import TopicPartition

from agents.kafka.brokers import Brokers
from agents.kafka.whole_batches import WholeBatches

ANSWER_S: Final = 60.0
STALLED_S: Final = 30.0
LOOK_S: Final = 0.01
SLOWEST_LOOK_S: Final = 0.1
READ_AGAIN: Final = 1_000
"""Records in a piece of those that are read again: there may be millions."""

FETCH_WAIT_MS: Final = 1
"""Below the end there is something, so no answer waits at the broker but the one that the client
asks for in advance when a stretch is over; the connection's other answers wait behind it. In a
stretch that does not go on each does, so there they wait for as long as is between two looks."""


@dataclass(eq=False)
class LogReader:
    """`start` first, `stop` at the end. `committed` reads the offsets of `group`, `topics` are
    those that it will be asked for, each with the bytes that a batch of it may take unpacked."""

    brokers: Brokers
    group: str
    topics: Mapping[str, int]
    _parts: list[Any] = field(default_factory=list, init=False)
    """What `start` has opened, in the order of closing."""

    @property
    def is_embedded(self) -> bool:
        """It reads the broker in the process, which forgets records and offsets as it likes."""
        return self.brokers.is_embedded

    async def start(self) -> None:
        """Connect, and learn where the topics are. KafkaConnectionError where no broker answers."""
        self._client = AIOKafkaClient(**self.brokers.client)
        self._parts.append(self._client)
        await self._client.bootstrap()
        await self._client.set_topics(frozenset(self.topics))
        self._offsets = self._fetcher(SubscriptionState())  # no subscription: it fetches nothing
        self._coordinator = _Committed(self._client, self.group)
        self._parts[:0] = [self._coordinator, self._offsets]

    async def stop(self) -> None:
        """Also one that has not been started, or not to the end."""
        for part in self._parts:
            await part.close()

    async def committed(self, partition: TopicPartition) -> int | None:
        """The offset that the group has committed; None if it has none. KafkaError where the
        brokers refuse to say."""
        try:
            async with asyncio.timeout(ANSWER_S):
                found = await self._coordinator.fetch_committed_offsets([partition])
        except TimeoutError:
            raise TimeoutError(
                f"the brokers do not say within {ANSWER_S:.0f} s what the group {self.group} has"
                f" committed of {_named(partition)}: its coordinator is away, or does not answer;"
                " see that each partition of __consumer_offsets has a leader"
            ) from None
        except KafkaError as refused:
            raise KafkaError(
                f"the brokers refuse to say what the group {self.group} has committed of"
                f" {_named(partition)}: {refused!r}; `inorder doctor` names the rights that are"
                " missing"
            ) from refused
        return int(found[partition].offset) if partition in found else None

    async def bounds(self, partition: TopicPartition) -> tuple[int, int]:
        """The first offset of the log, and the one behind all that is decided."""
        try:
            first, end = await asyncio.gather(
                self._offsets.beginning_offsets([partition], ANSWER_S * 1e3),
                self._offsets.end_offsets([partition], ANSWER_S * 1e3),
            )
        except KafkaTimeoutError:
            raise TimeoutError(
                f"the brokers do not say within {ANSWER_S:.0f} s where {_named(partition)} begins"
                " and ends: it has no leader, or its leader does not answer"
            ) from None
        return int(first[partition]), int(end[partition])

    async def stretch(
        self,
        partition: TopicPartition,
        begin: int,
        end: int,
        max_records: int | None = None,
        *,
        with_aborted: bool = False,
    ) -> AsyncGenerator[tuple[list[Any], int]]:
        """The records from `begin` until `end`, which is no later than that of the log: piece by
        piece, each with the position behind it. The last piece may go beyond `end`. Close it
        where it is left before."""
        if begin >= end:
            return
        subscription = SubscriptionState()
        subscription.assign_from_user([partition])
        fetcher = self._fetcher(subscription, with_aborted)
        WholeBatches(fetcher, self.topics[partition.topic])
        try:
            fetcher.seek_to(partition, begin)
            assigned = subscription.subscription.assignment.state_value(partition)
            position, moved_s, look_s = begin, time.monotonic(), LOOK_S
            while position < end:
                found = await fetcher.fetched_records([partition], look_s, max_records)
                before = position
                if assigned.has_valid_position:  # else it has been overtaken by retention
                    position = assigned.position
                if position != before:
                    moved_s, look_s = time.monotonic(), LOOK_S
                    fetcher._fetch_max_wait_ms = FETCH_WAIT_MS
                    yield found.get(partition, []), position
                elif time.monotonic() - moved_s > STALLED_S:
                    raise TimeoutError(
                        f"{_named(partition)} cannot be read beyond offset {position} of {end}:"
                        f" nothing has come for {STALLED_S:.0f} s"
                    )
                else:
                    look_s = min(2 * look_s, SLOWEST_LOOK_S)
                    fetcher._fetch_max_wait_ms = int(look_s * 1e3)
        finally:
            await fetcher.close()
            fetcher._records.clear()  # what was fetched in advance, in a circle with its fetcher

    async def read_again(
        self, partition: TopicPartition, offsets: Collection[int]
    ) -> AsyncGenerator[tuple[list[Any], int]]:
        """Yield the records at these offsets, as far as they still exist, piece by piece in order.

        Each piece has the position that the reading has come to. `offsets` is not empty. Close the
        generator where it is left before its end.
        """
        begin, end = await self.bounds(partition)
        begin, end = max(begin, min(offsets)), min(end, max(offsets) + 1)
        async with aclosing(self.stretch(partition, begin, end, READ_AGAIN)) as pieces:
            async for records, position in pieces:
                yield [record for record in records if record.offset in offsets], position

    async def first_of(self, partition: TopicPartition, begin: int = 0) -> Any | None:
        """Return the first committed record from an offset on; None if there is none."""
        first, end = await self.bounds(partition)
        async with aclosing(self.stretch(partition, max(first, begin), end, 1)) as pieces:
            async for records, _ in pieces:
                if records:
                    return records[0]
        return None

    def _fetcher(self, subscription: SubscriptionState, with_aborted: bool = False) -> Fetcher:
        return Fetcher(
            self._client,
            subscription,
            auto_offset_reset="earliest",
            isolation_level="read_uncommitted" if with_aborted else "read_committed",
            check_crcs=not self.brokers.is_embedded,
            fetch_max_wait_ms=FETCH_WAIT_MS,
        )


class _Committed(GroupCoordinator):  # type: ignore[misc] # aiokafka has no types here
    """What a group has committed, asked by a client that joins no group. librdkafka aborts its
    process where a broker ends amid this question, so it is asked by aiokafka.

    `fetch_committed_offsets` asks. From version 3 of that question on a broker refuses with an
    error at the top and no topics, which the client takes for an answer without offsets; here it
    is raised. Where it will pass the client asks again, of whoever coordinates the group then."""

    def __init__(self, client: AIOKafkaClient, group: str) -> None:
        # without a subscription, so it joins nothing
        super().__init__(client, SubscriptionState(), group_id=group, enable_auto_commit=False)

    async def _send_req(self, request: Any) -> Any:
        answer = await super()._send_req(request)
        refusal = errors.for_code(vars(answer).get("error_code", 0))
        if refusal is errors.NoError:
            return answer
        if refusal in (
            errors.GroupCoordinatorNotAvailableError,
            errors.NotCoordinatorForGroupError,
        ):
            self.coordinator_dead()
        raise refusal(self.group_id)


def _named(partition: TopicPartition) -> str:
    return f"{partition.topic}/{partition.partition}"
