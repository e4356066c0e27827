"""Examples: deletion of a derived topic's records that no group needs, and refused deletions."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import (
    KafkaError,
    PolicyViolationError,
    RequestTimedOutError,
    TopicAuthorizationFailedError,
)
from aiokafka.structs import TopicPartition

from agents.kafka.brokers import Brokers
from agents.kafka.purging import LEAST, KafkaTopic, PurgeRefused, Purging
from tests.services import SharedKafka, UniqueName


class Topic(KafkaTopic):
    """A topic with the offsets that each group still needs; with `refusal` a deletion fails."""

    def __init__(self, **needs: dict[int, int]) -> None:
        super().__init__(Brokers("nowhere:1", is_embedded=False), "events.sequenced")
        self.needs = {f"app.{name}": offsets for name, offsets in needs.items()}
        self.deleted: dict[int, int] = {}
        self.refusal: KafkaError | None = None

    async def find_needed(self, group: str, numbers: Sequence[int]) -> dict[int, int]:
        return {n: at for n, at in self.needs[group].items() if n in numbers}

    async def delete(self, before: Mapping[int, int]) -> dict[int, int]:
        if self.refusal is not None:
            raise self.refusal
        self.deleted |= before
        return dict(before)


def purge(topic: Topic, *looks: dict[int, int]) -> list[int]:
    """Purge once for each of the owner's needs, and return the numbers of deleted records."""
    purged: list[int] = []
    work = Purging(topic, [*topic.needs], purged.append)
    for own in looks:
        asyncio.run(work.purge_once(own))
    return purged


@pytest.mark.parametrize(
    ("merge", "window", "deleted"),
    [
        ({0: 5_000, 1: 9_000}, {0: 7_000, 1: 2_000}, {0: 5_000, 1: 2_000}),
        ({0: 5_000, 1: 9_000}, {1: 9_000}, {1: 9_000}),  # a group that has not started
        ({}, {0: 5_000}, {}),  # not owned, or nothing committed yet
        ({0: LEAST - 1}, {0: 5_000}, {}),
        ({1: 5_000}, {0: 5_000, 1: 5_000}, {1: 5_000}),
    ],
)
def test_unneeded_records_are_deleted(merge: Any, window: Any, deleted: dict[int, int]) -> None:
    topic = Topic(window=window)
    purge(topic, merge)
    assert topic.deleted == deleted


def test_small_deletion_is_delayed() -> None:
    topic = Topic()
    looks = [{0: offset} for offset in (5_000, 5_000 + LEAST - 1, 5_000 + LEAST)]
    assert purge(topic, *looks) == [LEAST]
    assert topic.deleted == {0: 5_000 + LEAST}


@pytest.mark.parametrize(
    ("refusal", "error"),
    [
        (TopicAuthorizationFailedError("x"), PurgeRefused),
        (PolicyViolationError("x"), PurgeRefused),
        (RequestTimedOutError("x"), KafkaError),
    ],
)
def test_refusal_differs_from_timeout(refusal: KafkaError, error: type[Exception]) -> None:
    topic = Topic()
    topic.refusal = refusal
    with pytest.raises(error):
        purge(topic, {0: 5_000})


@pytest.mark.kafka
async def test_real_broker_purges_topic(kafka: SharedKafka, unique_name: UniqueName) -> None:
    """An offset without our note does not count: an older version or a person set it."""

    name = unique_name("sequenced")
    kafka.create_topic(name, 3)
    places = [TopicPartition(name, number) for number in range(3)]
    async with AIOKafkaProducer(bootstrap_servers=kafka.bootstrap) as producer:
        for place in places[:2] * 3:
            await producer.send_and_wait(name, b"x", partition=place.partition)
    async with AIOKafkaConsumer(
        bootstrap_servers=kafka.bootstrap, group_id=name, enable_auto_commit=False
    ) as member:
        member.assign(places)
        notes = {places[0]: (3, "2"), places[1]: (3, ""), places[2]: (0, "by hand")}
        await member.commit(notes)
    topic = KafkaTopic(Brokers(kafka.bootstrap, is_embedded=False), name)
    try:
        assert await topic.find_needed(f"{name}-new", [0, 1, 2]) == {}
        assert await topic.find_needed(name, [0, 1, 2]) == {0: 2}
        assert await topic.delete({0: 2}) == {0: 2}
    finally:
        await topic.close()
