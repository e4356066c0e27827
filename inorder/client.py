"""Import the classes of confluent-kafka, or name the remedy if it is not installed.

It is installed with the extra `kafka`. A program that only reads results, or orders events in its
own process, needs no Kafka client.
"""

from __future__ import annotations

try:
    from confluent_kafka import (
        Consumer,
        KafkaError,
        KafkaException,
        Message,
        Producer,
        TopicPartition,
    )
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(
        "confluent_kafka is not installed; pip install 'inorder[kafka]'", name="confluent_kafka"
    ) from missing

__all__ = ["Consumer", "KafkaError", "KafkaException", "Message", "Producer", "TopicPartition"]
