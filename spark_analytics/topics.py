"""Where records come from: a topic in Kafka, as it stands or as it grows, or its archive.

All give the columns of Spark's Kafka source with `headers`. Readers see what is committed
only. A topic that has lost records which were not yet read, or that was made anew, ends
the query (`failOnDataLoss`); `jobs` says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from pyspark.sql import DataFrame, SparkSession

from spark_analytics import archive


class Topics(Protocol):
    """Gives the records of a topic by its name."""

    @property
    def streaming(self) -> bool: ...

    def records(self, topic: str) -> DataFrame: ...


@dataclass(frozen=True)
class KafkaTopics:
    """`options` reach the connector as they are (`kafka.security.protocol`). A batch of a
    stream takes at most `max_per_batch` records: that bounds its memory and how much is done
    again after a crash."""

    spark: SparkSession
    brokers: str
    streaming: bool
    options: Mapping[str, str] = field(default_factory=dict)
    max_per_batch: int = 500_000

    def records(self, topic: str) -> DataFrame:
        options = {
            "kafka.bootstrap.servers": self.brokers,
            "subscribe": topic,
            "includeHeaders": "true",
            "kafka.isolation.level": "read_committed",
            "startingOffsets": "earliest",
            "failOnDataLoss": "true",
            **self.options,
        }
        if self.streaming:
            options["maxOffsetsPerTrigger"] = str(self.max_per_batch)
            return self.spark.readStream.format("kafka").options(**options).load()
        return self.spark.read.format("kafka").options(**options).load()


@dataclass(frozen=True)
class ArchivedTopics:
    """What the job `archive` has written below `path`, bounded."""

    spark: SparkSession
    path: str
    streaming: bool = False

    def records(self, topic: str) -> DataFrame:
        return archive.read(self.spark, f"{self.path}/{topic}")
