"""Sources of records: a Kafka topic, up to its current end or as it grows, or its archive.

All give the columns of Spark's Kafka source with `headers`. Readers see what is committed
only. A topic that has lost records which were not yet read ends the query
(`failOnDataLoss`). One that was made anew does so only if it is shorter than what was read
of the old: who runs queries compares the topics' ids (`asked` has their names).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import Protocol

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_analytics import archive, folders


class Topics(Protocol):
    """Gives the records of topics by their names; `asked` are those that were asked for."""

    @property
    def streaming(self) -> bool: ...

    @property
    def asked(self) -> set[str]: ...

    def records(self, *topics: str) -> DataFrame: ...


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
    asked: set[str] = field(default_factory=set, compare=False)

    def records(self, *topics: str) -> DataFrame:
        """A batch takes shares of several that go with what each partition still has."""
        self.asked.update(topics)
        options = {
            "kafka.bootstrap.servers": self.brokers,
            "subscribe": ",".join(topics),
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
    """What the job `archive` has written below `path`, bounded. A topic without a folder had
    no records; FileNotFoundError if there is no archive at all."""

    spark: SparkSession
    path: str
    streaming: bool = False
    asked: set[str] = field(default_factory=set, compare=False)

    def records(self, *topics: str) -> DataFrame:
        self.asked.update(topics)
        table = archive.table_of(self.path)
        if table is not None:
            return archive.read(self.spark, table).where(F.col("topic").isin(*topics))
        return reduce(DataFrame.unionByName, map(self._of, topics))

    def _of(self, topic: str) -> DataFrame:
        folder = f"{self.path}/{topic}"
        if folders.exists(self.spark, folder):
            return archive.read(self.spark, folder)
        if not folders.exists(self.spark, self.path):
            raise FileNotFoundError(f"there is no archive at {self.path}")
        return self.spark.createDataFrame([], archive.SCHEMA).select(*archive.COLUMNS)
