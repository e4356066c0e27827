"""Deletes the records of `events.sequenced` that no later stage needs any more.

Each stage that reads the topic commits, next to its offset, the first offset that a restore would
read again. That is the offset of its oldest buffered event (agents.stage.delivery). Records before
the smallest of these offsets are deleted by DeleteRecords, as Kafka Streams does with its
repartition topics. Nothing is deleted before each of the stages has committed. The stage with MERGE
deletes the records of the partitions that it owns. It takes its own offsets from memory and those
of the other groups from their commits. (A broker that was killed has answered with the offset of an
aborted transaction, so the stage does not ask for its own.)

Bounds: one check in `PURGE_EVERY_S`, which ends after `LOOK_TIMEOUT_S`. Fewer than `LEAST` records
of a partition are not deleted. If the stage lacks a right, an error is logged, and the topic keeps
all records until the next start.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from aiokafka import errors
from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete
from aiokafka.errors import KafkaError
from aiokafka.structs import TopicPartition

from agents.kafka.brokers import Brokers

log = logging.getLogger(__name__)

PURGE_EVERY_S: Final = 5.0
LEAST: Final = 1_000
LOOK_TIMEOUT_S: Final = 20.0
DELETE_TIMEOUT_MS: Final = 10_000
REFUSALS: Final = (
    errors.ClusterAuthorizationFailedError,
    errors.GroupAuthorizationFailedError,
    errors.PolicyViolationError,
    errors.TopicAuthorizationFailedError,
)


class PurgeRefused(Exception):
    """The brokers refuse the purge, and would refuse it every time."""


@dataclass(eq=False)
class Purging:
    """The deletion of records of `topic` that neither its owner nor the other `groups` need.

    `purged` is called with the number of deleted records, counted by offsets.
    """

    topic: KafkaTopic
    groups: Sequence[str]
    purged: Callable[[int], None]
    _begins_at: dict[int, int] = field(default_factory=dict, init=False)

    async def run(self, own: Callable[[], Mapping[int, int]]) -> None:
        """Purge regularly until the brokers refuse it.

        For each partition of the owner, `own` returns the first offset that the owner still needs.
        """
        was_well = True
        try:
            while True:
                await asyncio.sleep(PURGE_EVERY_S)
                try:
                    async with asyncio.timeout(LOOK_TIMEOUT_S):
                        await self.purge_once(own())
                    was_well = True
                except PurgeRefused as refused:
                    log.error(
                        "%s is not purged and grows: %s; grant"
                        " the right that `inorder topics acls` lists",
                        self.topic.name,
                        refused,
                    )
                    return
                except (KafkaError, TimeoutError) as failed:
                    if was_well:  # A series of failures is logged once.
                        log.warning(
                            "%s cannot be purged at the moment: %r", self.topic.name, failed
                        )
                    was_well = False
        finally:
            await self.topic.close()

    async def purge_once(self, own: Mapping[int, int]) -> None:
        """Delete, once, the records that no group needs.

        `own` has the first needed offset of each of the owner's partitions. Raises PurgeRefused if
        the brokers will always refuse, KafkaError for other failures.
        """
        needed = dict(own)
        try:
            for group in self.groups if own else ():
                found = await self.topic.find_needed(group, sorted(own))
                needed = {n: min(at, found[n]) for n, at in needed.items() if n in found}
            await self._purge(needed)
        except REFUSALS as failed:
            raise PurgeRefused(str(failed)) from failed

    async def _purge(self, needed: Mapping[int, int]) -> None:
        begins_at = self._begins_at
        due = {n: at for n, at in needed.items() if at - begins_at.get(n, 0) >= LEAST}
        if not due:
            return
        for number, now in (await self.topic.delete(due)).items():
            # The first offset of the log is unknown before the first purge.
            if number in begins_at:
                self.purged(now - begins_at[number])
            begins_at[number] = now


@dataclass(eq=False)
class KafkaTopic:
    """A client for the topic, and for the offsets of the groups that read it.

    The client connects with the first request. Its methods raise KafkaError if the brokers refuse.
    """

    brokers: Brokers
    name: str
    _client: AIOKafkaAdminClient | None = field(default=None, init=False)

    async def find_needed(self, group: str, numbers: Sequence[int]) -> dict[int, int]:
        """Return, for each partition, the first offset that the group would read again.

        A partition is absent if the group has not committed that offset yet.
        """
        client = await self._connect()
        places = [TopicPartition(self.name, number) for number in numbers]
        found = await client.list_consumer_group_offsets(group, partitions=places)
        return {
            place.partition: int(offset.metadata)
            for place, offset in found.items()
            if offset.metadata and offset.metadata.isdigit()
        }

    async def delete(self, before: Mapping[int, int]) -> dict[int, int]:
        """Delete the records before these offsets, and return each partition's new first offset."""
        client = await self._connect()
        asked = {TopicPartition(self.name, n): RecordsToDelete(at) for n, at in before.items()}
        begins_at = await client.delete_records(asked, DELETE_TIMEOUT_MS)
        return {place.partition: offset for place, offset in begins_at.items()}

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()

    async def _connect(self) -> AIOKafkaAdminClient:
        if self._client is None:
            self._client = AIOKafkaAdminClient(**self.brokers.client)
        await self._client.start()
        return self._client
