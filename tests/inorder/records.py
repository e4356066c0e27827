"""What a reader of the contract finds on a topic of the embedded broker."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

from confluent_kafka import OFFSET_BEGINNING, Consumer, Message, TopicPartition

from cli.local.embedded import PARTITIONS
from inorder.contract import Contract
from topology.config import HeaderConfig
from topology.model.event import Event
from topology.wire.header_reader import HeaderReader

READ_TIMEOUT_S = 20.0


def read_messages(brokers: str, topic: str, count: int) -> list[Message]:
    """The first `count` records of all partitions; fails if they do not come."""
    consumer = Consumer(
        {
            "bootstrap.servers": brokers,
            "group.id": "reads",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 10,
        }
    )
    found: list[Message] = []
    try:
        consumer.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in range(PARTITIONS)])
        deadline_s = time.monotonic() + READ_TIMEOUT_S
        while len(found) < count and time.monotonic() < deadline_s:
            found += [m for m in consumer.consume(500, timeout=0.2) if m.error() is None]
    finally:
        consumer.close()
    assert len(found) >= count, f"{len(found)} of {count} records came"
    return found


def headers_of(message: Message) -> list[tuple[str, bytes]]:
    found: Any = message.headers() or []
    return list(found)


def event_of(message: Message, config: Contract | None = None) -> Event:
    """As the reorder stage reads it; fails if the record breaks the contract."""
    read = HeaderReader(config or HeaderConfig()).read(
        headers_of(message), 0, 0, message.offset() or 0, None, message.value()
    )
    assert isinstance(read, Event), read
    return read


class Topic(NamedTuple):
    """A topic of the embedded broker, and what a reader finds there."""

    bootstrap: str
    name: str

    @property
    def words(self) -> list[str]:
        """The options that name it to a command."""
        return ["--brokers", self.bootstrap, "--topic", self.name]

    def messages(self, count: int) -> list[Message]:
        return read_messages(self.bootstrap, self.name, count)

    def events(self, count: int, config: Contract | None = None) -> list[Event]:
        return [event_of(message, config) for message in self.messages(count)]
