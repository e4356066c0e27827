"""Consume and forward on confluent-kafka with headers copied, and do nothing else.

No Python program between two topics can be faster. There is no order, no state and no transaction,
and offsets are committed in the background.

    python -m benchmarks.peers.bare_loop BROKERS GROUP INPUT OUTPUT
"""

from __future__ import annotations

import signal
import sys
import threading
from typing import Any, Final

from confluent_kafka import Consumer, Message, Producer

POLL_RECORDS: Final = 200
POLL_TIMEOUT_S: Final = 0.1
FLUSH_TIMEOUT_S: Final = 10.0
QUEUED_RECORDS: Final = 200_000


def run(brokers: str, group: str, source: str, target: str, stop: threading.Event) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": brokers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 50,
        }
    )
    producer = Producer(
        {
            "bootstrap.servers": brokers,
            "enable.idempotence": True,
            "compression.type": "lz4",
            "linger.ms": 5,
            "queue.buffering.max.messages": QUEUED_RECORDS,
        }
    )
    consumer.subscribe([source])
    while not stop.is_set():
        for message in consumer.consume(POLL_RECORDS, POLL_TIMEOUT_S):
            if message.error() is None:
                _forward(producer, target, message)
        producer.poll(0)
    producer.flush(FLUSH_TIMEOUT_S)
    consumer.close()


def _forward(producer: Producer, target: str, message: Message) -> None:
    record: dict[str, Any] = {
        "value": message.value(),
        "key": message.key(),
        "headers": message.headers(),
        "timestamp": message.timestamp()[1],
    }
    while True:
        try:
            producer.produce(target, **record)
            return
        except BufferError:
            producer.poll(POLL_TIMEOUT_S)


def main() -> None:
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    brokers, group, source, target = sys.argv[1:5]
    run(brokers, group, source, target, stop)


if __name__ == "__main__":
    main()
