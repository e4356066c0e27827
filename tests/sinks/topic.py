"""Results as the agents publish them: keyed by id, in transactions, some of them aborted."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from typing import Self

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from sinks.result import Result
from tests.sinks.results import record, result

ANSWER_TIMEOUT_S = 30.0
RECENT = 30


class ResultsProducer:
    """A producer of transactions on one topic."""

    def __init__(self, brokers: str, topic: str) -> None:
        self._topic = topic
        self._failures: list[str] = []
        self._offsets: dict[int, int] = {}
        self.next_offsets: dict[int, int] = {}
        """The offset after the last committed record, by partition."""

        self._producer = Producer(
            {"bootstrap.servers": brokers, "transactional.id": f"of-{topic}", "linger.ms": 5}
        )
        self._producer.init_transactions(ANSWER_TIMEOUT_S)

    def results(self, results: list[Result]) -> None:
        """Send the results in one transaction."""
        self.records([(each.id.encode(), each.record, {}) for each in results])

    def records(
        self, records: list[tuple[bytes, bytes | None, dict[str, bytes]]], *, abort: bool = False
    ) -> None:
        """Send records of key, value and headers in one transaction."""
        producer = self._producer
        producer.begin_transaction()
        for key, value, headers in records:
            producer.produce(
                self._topic,
                key=key,
                value=value,
                headers=list(headers.items()),
                on_delivery=self._delivered,
            )
        if abort:
            assert producer.flush(ANSWER_TIMEOUT_S) == 0  # in the log, but never visible
            producer.abort_transaction(ANSWER_TIMEOUT_S)
        else:
            producer.commit_transaction(ANSWER_TIMEOUT_S)
            self.next_offsets = dict(self._offsets)
        assert not self._failures

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._producer.flush(ANSWER_TIMEOUT_S)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._failures.append(error.str())
            return
        partition, offset = message.partition(), message.offset()
        assert partition is not None
        assert offset is not None
        self._offsets[partition] = offset + 1


def group_has_read(brokers: str, topic: str, group: str, next_offsets: Mapping[int, int]) -> bool:
    """Return whether the group's committed offsets have reached these."""
    consumer = Consumer({"bootstrap.servers": brokers, "group.id": group})
    try:
        places = [TopicPartition(topic, partition) for partition in next_offsets]
        found = consumer.committed(places, ANSWER_TIMEOUT_S)
        return all(place.offset >= next_offsets[place.partition] for place in found)
    except KafkaException:  # the group's coordinator is not ready yet
        return False
    finally:
        consumer.close()


def history(seed: int, ids: int, changes: int) -> Iterator[Result]:
    """Yield changes of results: revisions of an id rise by one, with retracts between.

    Changes move through the ids, `RECENT` at a time. So most ids have their last revision early,
    and no later revision can hide its loss.
    """
    rng = random.Random(seed)
    revisions = [-1] * ids
    stands = [False] * ids
    for number in range(changes):
        first = number * max(1, ids - RECENT) // changes
        at = first + rng.randrange(min(RECENT, ids))
        revisions[at] += 1
        if stands[at] and rng.random() < 0.3:
            op, stands[at] = "retract", False
        else:
            op, stands[at] = "update" if stands[at] else "emit", True
        yield result(f"r{at}", revisions[at], op)


def never_committed(id_: str) -> tuple[bytes, bytes | None, dict[str, bytes]]:
    """Return a record that would win over all others if it counted."""
    return id_.encode(), record(id_, 2**40), {}
