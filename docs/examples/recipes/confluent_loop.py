"""Reads a topic in the order in which its events happened, in a plain loop of confluent-kafka."""

import json
import time

from confluent_kafka import TopicPartition


def in_order(consumer, order):
    """Yield the records of an `Ordering`. The consumer has enable.auto.offset.store: False."""
    topics = {}
    while True:
        messages = [each for each in consumer.consume(500, timeout=0.2) if not each.error()]
        for message in messages:
            arrival = message.timestamp()[1] * 1_000_000
            event = {**json.loads(message.value()), "arrival": arrival}
            topics[message.partition()] = message.topic()
            yield from order.feed(event, partition=message.partition(), offset=message.offset())
        yield from [] if messages else order.tick(time.time_ns())
        safe = [TopicPartition(topics[each], each, order.safe_offset(each)) for each in topics]
        consumer.store_offsets(offsets=safe)  # what waits is read again after a crash
