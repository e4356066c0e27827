"""A Kafka inside this process: librdkafka's mock cluster. No Java, no container.

Produce, fetch, headers, consumer groups and transactions work; nothing is stored
on disk. Its limits, which are not ours to lift:

* A topic has `PARTITIONS` partitions and comes to be when its metadata is asked
  for: `make_topic` does that. Never send it a CreateTopics request
  (`AdminClient.create_topics`): it is not answered.
* About 5 MB are kept of each partition; older records vanish. Bound what you send
  before it is read.
* Timestamps are the producer's (CreateTime); topics have no settings.
* It lives as long as the client that hosts it, so keep the value returned.
"""

from __future__ import annotations

from typing import Self

from confluent_kafka import Producer

PARTITIONS = 4
MAX_BROKERS = 3
ASK_TIMEOUT_S = 10.0


class EmbeddedBroker:
    """Up once constructed; a context manager for the sake of its end."""

    def __init__(self, *, brokers: int = 1) -> None:
        if not 1 <= brokers <= MAX_BROKERS:
            raise ValueError(f"brokers={brokers}: write 1 to {MAX_BROKERS}")
        self._host: Producer | None = Producer(
            {
                "bootstrap.servers": "embedded",  # replaced by the mock cluster's own
                "test.mock.num.brokers": brokers,
                "test.mock.broker.rtt": 0,
                "log_level": 3,  # that it is a mock is known
            }
        )
        found = self._host.list_topics(timeout=ASK_TIMEOUT_S).brokers.values()
        self.bootstrap = ",".join(f"{broker.host}:{broker.port}" for broker in found)

    def make_topic(self, name: str) -> None:
        """Let the topic come to be, where it is not there yet."""
        self._client.list_topics(name, timeout=ASK_TIMEOUT_S)

    def close(self) -> None:
        """The broker is gone, with all its records."""
        self._host = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def _client(self) -> Producer:
        if self._host is None:
            raise RuntimeError("the embedded broker has been closed")
        return self._host
