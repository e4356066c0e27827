"""Read records from Kafka topics, up to their current end or continuously, or from an archive.

All sources have the columns of Spark's Kafka source with `headers`. Only committed records are
read. A query ends if its topic has lost unread records (`failOnDataLoss`). If a topic was deleted
and created again, Spark notices only if it is shorter than the part already read. The runner of
queries therefore compares the topics' ids (`asked` has their names).
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
    """A source of the records of topics, by name; `asked` has the names that were requested."""

    @property
    def streaming(self) -> bool: ...

    @property
    def asked(self) -> set[str]: ...

    def records(self, *topics: str) -> DataFrame: ...


@dataclass(frozen=True)
class KafkaTopics:
    """A source that reads topics of a Kafka cluster.

    `options` are passed to the connector unchanged (`kafka.security.protocol`). A batch of a stream
    has at most `max_per_batch` records, which bounds its memory and the work to repeat after a
    crash.
    """

    spark: SparkSession
    brokers: str
    streaming: bool
    options: Mapping[str, str] = field(default_factory=dict)
    max_per_batch: int = 500_000
    asked: set[str] = field(default_factory=set, compare=False)

    def records(self, *topics: str) -> DataFrame:
        """Return the records of topics.

        A batch of a stream takes from each partition in proportion to its unread records.
        """
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
    """A bounded source that reads the output of the job `archive` below `path`.

    A topic without a folder had no records.

    Raises:
        FileNotFoundError: There is no archive at all.
    """

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
            raise FileNotFoundError(f"there is no archive at {self.path}; name the folder of one")
        return self.spark.createDataFrame([], archive.SCHEMA).select(*archive.COLUMNS)
