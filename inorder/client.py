"""confluent-kafka's classes, or the remedy where it is not installed.

It is the extra `kafka`, so that who reads results, or orders events in a process of its own,
installs no Kafka client.
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
