"""Deletes what nobody needs any more of `events.sequenced`, which the next stages alone read.

Each stage that reads it commits beside its offset the first one that a restore would read again: of
its oldest held event (agents.stage.delivery). What lies before the least of all their groups goes,
by DeleteRecords, as Kafka Streams does with its repartition topics. Where one of them has not
committed yet nothing goes. The stage that merges does it, for the partitions that it owns.

Bounds: one look in `PURGE_EVERY_S`, and nothing for fewer than `LEAST` records of a partition.
Where it has no right to, the log has a line, and the topic keeps all until the next start.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from agents.kafka.brokers import Brokers

log = logging.getLogger(__name__)

PURGE_EVERY_S: Final = 5.0
LEAST: Final = 1_000
TIMEOUT_S: Final = 10.0
REFUSALS: Final = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.POLICY_VIOLATION,
    }
)


class PurgeRefused(Exception):
    """It would be refused at each look."""


class Purging:
    """Purges `topic` behind the `groups`; `purged` is called with how many offsets went."""

    def __init__(
        self, admin: Any, topic: str, groups: Sequence[str], purged: Callable[[int], None]
    ) -> None:
        self._admin = admin
        self._topic = topic
        self._groups = groups
        self._purged = purged
        self._begins_at: dict[int, int] = {}

    async def run(self, owned: Callable[[], Iterable[int]]) -> None:
        """Until it is refused; `owned` are partitions."""
        was_well = True
        while True:
            await asyncio.sleep(PURGE_EVERY_S)
            try:
                await asyncio.to_thread(self.look, sorted(owned()))
                was_well = True
            except PurgeRefused as refused:
                log.error(
                    "%s is not purged and grows: %s; give the right (`inorder topics acls`), or"
                    " leave out `keep_sequenced: false`",
                    *(self._topic, refused),
                )
                return
            except KafkaException as failed:
                if was_well:  # once, not at each look
                    log.warning("%s is not purged at present: %s", self._topic, failed)
                was_well = False

    def look(self, owned: Sequence[int]) -> None:
        """Purge once. Blocks. PurgeRefused where that is for good, KafkaException else."""
        try:
            self._purge(self._needed_from(owned))
        except KafkaException as failed:
            error = failed.args[0]
            if error.code() in REFUSALS:
                raise PurgeRefused(error.str()) from failed
            raise

    def _needed_from(self, owned: Sequence[int]) -> dict[int, int]:
        """By partition, of those of which every group has said so."""
        places = [TopicPartition(self._topic, number) for number in owned]
        needed: dict[int, int] = {}
        for group in self._groups if places else ():
            asked = [ConsumerGroupTopicPartitions(group, places)]
            answer = self._admin.list_consumer_group_offsets(asked, request_timeout=TIMEOUT_S)
            found = {}
            for place in answer[group].result(TIMEOUT_S).topic_partitions:
                if place.error is not None:
                    raise KafkaException(place.error)
                if place.metadata and place.metadata.isdigit():
                    found[place.partition] = int(place.metadata)
            if group == self._groups[0]:
                needed = found
            needed = {n: min(at, found[n]) for n, at in needed.items() if n in found}
        return needed

    def _purge(self, needed: dict[int, int]) -> None:
        begins_at = self._begins_at
        due = [
            TopicPartition(self._topic, number, offset)
            for number, offset in needed.items()
            if offset - begins_at.get(number, 0) >= LEAST
        ]
        if not due:
            return
        for place, answer in self._admin.delete_records(due, request_timeout=TIMEOUT_S).items():
            now = answer.result(TIMEOUT_S).low_watermark
            number = place.partition
            if number in begins_at:  # where it began before the first is not known
                self._purged(now - begins_at[number])
            begins_at[number] = now


def purging(
    brokers: Brokers, topic: str, groups: Sequence[str], purged: Callable[[int], None]
) -> Purging:
    admin = AdminClient(
        {**brokers.security.librdkafka(), "bootstrap.servers": brokers.servers, "log_level": 0}
    )
    return Purging(admin, topic, groups, purged)
