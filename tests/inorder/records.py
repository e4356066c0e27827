"""Read records from a topic on the embedded broker, by the header contract."""

from __future__ import annotations

from typing import Any, NamedTuple

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, TopicPartition

from cli.local.embedded import PARTITIONS
from inorder.contract import Contract
from tests.waiting import Patience
from topology.base.event import Event
from topology.config import HeaderConfig
from topology.records.header_reader import HeaderReader


def read_messages(brokers: str, topic: str, count: int | None = None) -> list[Message]:
    """Return all records in the topic; fail if their number is not `count`."""
    consumer = Consumer(
        {
            "bootstrap.servers": brokers,
            "group.id": "reads",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 10,
        }
    )
    found: list[Message] = []
    at_end: set[int | None] = set()
    try:
        consumer.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in range(PARTITIONS)])
        patience = Patience()
        while len(found) < (count or 0) or len(at_end) < PARTITIONS:
            patience.look(len(found), lambda: f"{count} records, of which {len(found)} came")
            for message in consumer.consume(500, timeout=0.2):
                if (error := message.error()) is None:
                    found.append(message)
                elif error.code() == KafkaError._PARTITION_EOF:
                    at_end.add(message.partition())
    finally:
        consumer.close()
    assert count in {None, len(found)}
    return found


def headers_of(message: Message) -> list[tuple[str, bytes]]:
    found: Any = message.headers() or []
    return list(found)


def event_of(message: Message, config: Contract | None = None) -> Event:
    """Return the event as the reorder stage reads it; fail if the record breaks the contract."""
    read = HeaderReader(config or HeaderConfig()).read(
        headers_of(message), 0, 0, message.offset() or 0, None, message.value()
    )
    assert isinstance(read, Event), read
    return read


class Topic(NamedTuple):
    """A topic on the embedded broker, with the records that a reader finds there."""

    bootstrap: str
    name: str

    @property
    def words(self) -> list[str]:
        """Return the options that name the topic to a command."""
        return ["--brokers", self.bootstrap, "--topic", self.name]

    def messages(self, count: int | None = None) -> list[Message]:
        return read_messages(self.bootstrap, self.name, count)

    def events(self, count: int | None = None, config: Contract | None = None) -> list[Event]:
        return [event_of(message, config) for message in self.messages(count)]
