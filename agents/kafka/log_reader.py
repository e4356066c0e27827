"""Reads ranges of many partitions' logs, and a group's offsets, with one client per stage.

Restoring an assigned partition takes three reads: the group's committed offset, the changelog after
the local copy, and the input records that the state buffers. A separate client for each would
connect, read the metadata, find the coordinator and disconnect. That was the longest part of the
pause at a rebalance. This client is opened before the stage joins its group, stays open, and is
shared by all partitions. Each partition has its own fetcher, so no partition waits until another
has taken its records.

All reads return committed records only, unless aborted ones are requested too. An end is the last
stable offset: no transaction below it is open, so a range up to it can always be read. Commit
markers at the end are skipped without a record, and the client does not report that. So the
position is checked after `LOOK_S`. While it does not move, it is checked less and less often, down
to every `SLOWEST_LOOK_S`.

The group's offset distinguishes a lost changelog from a first start, so a refusal must not count as
"no offset". Brokers report a refusal at the top level of their answer, which the client does not
read (`_Committed`).

Bounds: an answer is awaited for `ANSWER_S`, retries after temporary refusals included. A range
without new records is awaited for `STALLED_S`. Then a TimeoutError names the partition. Reading a
partition takes memory for a fetch of one mebibyte or one record, one unpacked batch, and the
records that the caller keeps. `agents.task.handler` limits the number of partitions that are read
at a time.
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
NO_LEADER: Final = -1
STALLED_S: Final = 30.0
LOOK_S: Final = 0.01
SLOWEST_LOOK_S: Final = 0.1
READ_AGAIN: Final = 1_000
"""Maximum number of records in a piece of `read_again`, whose range may have millions."""

FETCH_WAIT_MS: Final = 1
"""Maximum time that a fetch waits at the broker.

All records below the end exist already. So only the fetch that the client sends in advance at the
end of a range has to wait. Other answers on the connection wait until then. In a stalled range
every fetch waits, so the wait is then the time between two checks.
"""


@dataclass(eq=False)
class LogReader:
    """A reader of logs and of the offsets of `group`; call `start` first and `stop` at the end.

    `topics` has every topic that may be read, with the maximum unpacked size of a batch in bytes.
    """

    brokers: Brokers
    group: str
    topics: Mapping[str, int]
    _parts: list[Any] = field(default_factory=list, init=False)
    """Client and fetchers that `start` has opened, in the order in which `stop` closes them."""

    @property
    def is_embedded(self) -> bool:
        """Whether the reader uses the in-process broker, which may lose records and offsets."""
        return self.brokers.is_embedded

    async def start(self) -> None:
        """Connect and find the topics; raise KafkaConnectionError if no broker answers."""
        self._client = AIOKafkaClient(**self.brokers.client)
        self._parts.append(self._client)
        await self._client.bootstrap()
        await self._client.set_topics(frozenset(self.topics))
        # This fetcher has no subscription, so it fetches nothing.
        self._offsets = self._make_fetcher(SubscriptionState())
        self._coordinator = _Committed(self._client, self.group)
        self._parts[:0] = [self._coordinator, self._offsets]

    async def stop(self) -> None:
        """Close everything that was opened, even if `start` was not called or failed."""
        for part in self._parts:
            await part.close()

    async def read_committed(self, partition: TopicPartition) -> int | None:
        """Return the group's committed offset, or None if it has none.

        Raises KafkaError if the brokers refuse the request, and TimeoutError if they do not answer.
        """
        try:
            async with asyncio.timeout(ANSWER_S):
                found = await self._coordinator.fetch_committed_offsets([partition])
        except TimeoutError:
            raise TimeoutError(
                f"the brokers did not return the committed offset of the group {self.group} for"
                f" {_name(partition)} within {ANSWER_S:.0f} s: its coordinator is unavailable;"
                " check that each partition of __consumer_offsets has a leader"
            ) from None
        except KafkaError as refused:
            raise KafkaError(
                f"the brokers refuse to return the committed offset of the group {self.group} for"
                f" {_name(partition)}: {refused!r}; `inorder doctor` names the missing rights"
            ) from refused
        return int(found[partition].offset) if partition in found else None

    async def bounds(self, partition: TopicPartition) -> tuple[int, int]:
        """Return the first offset of the log, and the last stable offset.

        Raises TimeoutError if the brokers do not answer.
        """
        try:
            first, end = await asyncio.gather(
                self._offsets.beginning_offsets([partition], ANSWER_S * 1e3),
                self._offsets.end_offsets([partition], ANSWER_S * 1e3),
            )
        except KafkaTimeoutError:
            raise TimeoutError(
                f"the brokers did not return the first and last offset of"
                f" {_name(partition)} within"
                f" {ANSWER_S:.0f} s: it has no leader, or its leader does not answer"
            ) from None
        return int(first[partition]), int(end[partition])

    async def leaderless(self, partitions: Collection[TopicPartition]) -> list[TopicPartition]:
        """Return those partitions that have no leader, as the brokers say now."""
        await self._client.force_metadata_update()
        leader_of = self._client.cluster.leader_for_partition
        return [each for each in partitions if leader_of(each) in (None, NO_LEADER)]

    async def read_range(
        self,
        partition: TopicPartition,
        begin: int,
        end: int,
        max_records: int | None = None,
        *,
        with_aborted: bool = False,
    ) -> AsyncGenerator[tuple[list[Any], int]]:
        """Yield the records from `begin` to `end` in pieces, each with the position after it.

        `end` is at most the end of the log. The last piece may go beyond `end`. Close the generator
        if you stop early. Raises TimeoutError if no record arrives for `STALLED_S`.
        """
        if begin >= end:
            return
        subscription = SubscriptionState()
        subscription.assign_from_user([partition])
        fetcher = self._make_fetcher(subscription, with_aborted)
        WholeBatches(fetcher, self.topics[partition.topic])
        try:
            fetcher.seek_to(partition, begin)
            assigned = subscription.subscription.assignment.state_value(partition)
            position, moved_s, look_s = begin, time.monotonic(), LOOK_S
            while position < end:
                found = await fetcher.fetched_records([partition], look_s, max_records)
                before = position
                # A position is invalid if retention has deleted it.
                if assigned.has_valid_position:
                    position = assigned.position
                if position != before:
                    moved_s, look_s = time.monotonic(), LOOK_S
                    fetcher._fetch_max_wait_ms = FETCH_WAIT_MS
                    yield found.get(partition, []), position
                elif time.monotonic() - moved_s > STALLED_S:
                    raise TimeoutError(
                        f"{_name(partition)} cannot be read beyond offset {position} of {end}:"
                        f" no record arrived for {STALLED_S:.0f} s"
                    )
                else:
                    look_s = min(2 * look_s, SLOWEST_LOOK_S)
                    fetcher._fetch_max_wait_ms = int(look_s * 1e3)
        finally:
            await fetcher.close()
            # The prefetched records and their fetcher form a reference cycle.
            fetcher._records.clear()

    async def read_again(
        self, partition: TopicPartition, offsets: Collection[int]
    ) -> AsyncGenerator[tuple[list[Any], int]]:
        """Yield the records at these offsets that still exist, piece by piece in order.

        Each piece comes with the position that has been reached. `offsets` must not be empty. Close
        the generator if you stop early.
        """
        begin, end = await self.bounds(partition)
        begin, end = max(begin, min(offsets)), min(end, max(offsets) + 1)
        async with aclosing(self.read_range(partition, begin, end, READ_AGAIN)) as pieces:
            async for records, position in pieces:
                yield [record for record in records if record.offset in offsets], position

    async def first_of(self, partition: TopicPartition, begin: int = 0) -> Any | None:
        """Return the first committed record at or after an offset, or None if there is none."""
        first, end = await self.bounds(partition)
        async with aclosing(self.read_range(partition, max(first, begin), end, 1)) as pieces:
            async for records, _ in pieces:
                if records:
                    return records[0]
        return None

    def _make_fetcher(self, subscription: SubscriptionState, with_aborted: bool = False) -> Fetcher:
        return Fetcher(
            self._client,
            subscription,
            auto_offset_reset="earliest",
            isolation_level="read_uncommitted" if with_aborted else "read_committed",
            check_crcs=not self.brokers.is_embedded,
            fetch_max_wait_ms=FETCH_WAIT_MS,
        )


class _Committed(GroupCoordinator):  # type: ignore[misc] # aiokafka has no types here
    """A client that reads a group's committed offsets without joining a group.

    Call `fetch_committed_offsets`. aiokafka sends the request, because librdkafka aborts its
    process if a broker stops during it.

    Since version 3 of the request, a broker refuses with an error code at the top level and no
    topics. The client takes that for an answer without offsets; here it raises an error. After a
    temporary refusal, the client asks the group's new coordinator again.
    """

    def __init__(self, client: AIOKafkaClient, group: str) -> None:
        # A client without a subscription joins no group.
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


def _name(partition: TopicPartition) -> str:
    return f"{partition.topic}/{partition.partition}"
