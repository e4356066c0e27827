"""Examples: what of a derived topic goes, behind which groups, and what a refusal leads to."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from agents.kafka.purging import LEAST, PurgeRefused, Purging

MERGE, WINDOW = "app.merge", "app.window"


class Answer:
    def __init__(self, value: Any) -> None:
        self._value = value

    def result(self, _: float) -> Any:
        if isinstance(self._value, KafkaError):
            raise KafkaException(self._value)
        return self._value


class Brokers:
    """`said` is the metadata of each group's offsets by partition; `refusal` meets a deletion."""

    def __init__(self, **said: dict[int, str | None]) -> None:
        self.said = said
        self.deleted: dict[int, int] = {}
        self.refusal: KafkaError | None = None

    def list_consumer_group_offsets(self, asked: Any, **_: Any) -> dict[str, Answer]:
        (group,) = asked
        said = self.said[group.group_id.removeprefix("app.")]
        places = [
            SimpleNamespace(
                partition=place.partition, error=None, metadata=said.get(place.partition)
            )
            for place in group.topic_partitions
        ]
        return {group.group_id: Answer(SimpleNamespace(topic_partitions=places))}

    def delete_records(self, due: list[TopicPartition], **_: Any) -> dict[TopicPartition, Answer]:
        if self.refusal is None:
            self.deleted |= {place.partition: place.offset for place in due}
        return {
            place: Answer(self.refusal or SimpleNamespace(low_watermark=place.offset))
            for place in due
        }


def purge(brokers: Brokers, *looks: list[int]) -> list[int]:
    purged: list[int] = []
    groups = [f"app.{name}" for name in brokers.said]
    work = Purging(brokers, "events.sequenced", groups, purged.append)
    for owned in looks or ([0, 1],):
        work.look(owned)
    return purged


@pytest.mark.parametrize(
    ("merge", "window", "deleted"),
    [
        ({0: "5000", 1: "9000"}, {0: "7000", 1: "2000"}, {0: 5000, 1: 2000}),
        ({0: "5000", 1: "9000"}, {1: "9000"}, {1: 9000}),  # a group that has not begun
        ({0: "5000"}, {0: ""}, {}),  # of a version that did not say so
        ({0: "5000"}, {0: "by hand"}, {}),
        ({}, {0: "5000"}, {}),
        ({0: str(LEAST - 1)}, {0: "5000"}, {}),
    ],
)
def test_what_no_group_needs_goes(merge: Any, window: Any, deleted: dict[int, int]) -> None:
    brokers = Brokers(merge=merge, window=window)
    purge(brokers)
    assert brokers.deleted == deleted


def test_only_partitions_that_are_owned_are_purged() -> None:
    brokers = Brokers(merge={0: "5000", 1: "5000"})
    purge(brokers, [], [1])
    assert brokers.deleted == {1: 5000}


def test_few_records_wait_and_what_goes_is_counted() -> None:
    brokers = Brokers(merge={0: "5000"})
    counted: list[int] = []
    work = Purging(brokers, "events.sequenced", [MERGE], counted.append)
    for offset in (5_000, 5_000 + LEAST - 1, 5_000 + LEAST):
        brokers.said["merge"][0] = str(offset)
        work.look([0])
    assert (brokers.deleted, counted) == ({0: 5_000 + LEAST}, [LEAST])


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, PurgeRefused),
        (KafkaError.POLICY_VIOLATION, PurgeRefused),
        (KafkaError._TIMED_OUT, KafkaException),
    ],
)
def test_a_right_that_is_missing_is_told_from_brokers_that_are_away(
    code: int, error: type[Exception]
) -> None:
    brokers = Brokers(merge={0: "5000"})
    brokers.refusal = KafkaError(code)
    with pytest.raises(error):
        purge(brokers)
