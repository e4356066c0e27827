"""Run `inorder spark live`: records of the topics, assigned to groups, ordered by a processor.

A single query does all the work. Reading tasks make lines of records (`reading`), and a shuffle
brings the lines of a group together. A processor orders them (`ordering`), and its output goes to a
table for each kind. The query runs a batch at each interval even if no record arrives, because time
advances.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyspark.sql import DataFrame, SparkSession, functions

from spark_analytics.backfill import log_order
from spark_analytics.backfill.archived import find_topics_to_read
from spark_analytics.executors.setting import Setting, topology_of
from spark_analytics.jobs.work import JobRefused, Table
from spark_analytics.live.in_lake import lake_parts
from spark_analytics.live.line_tables import KEYS, OUTPUT, TABLE, parts
from spark_analytics.live.ordering import OrderLive
from spark_analytics.live.partitions import CLOCK, RAW, PartitionName
from spark_analytics.live.reading import PARCELS, ReadRecords
from topology.config import Topology

NAME: Final = "live"
STORE: Final = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB: Final = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
NO_DATA: Final = "spark.sql.streaming.noDataMicroBatches.enabled"
LEAST_LAG_MS: Final = 2_000
"""The minimum tick lag, the time before a batch at which idle partitions count as read to the end.
"""
REST_S: Final = 1.0
"""The time without new records, beyond the tick lag, after which a run without an interval ends."""


def lag_ms(topology: Topology) -> int:
    """Return the tick lag of the query: `tick_lag` of the topology, but at least LEAST_LAG_MS.

    The lag must exceed the time for which transactions of producers stay open.
    """
    return max(LEAST_LAG_MS, topology.tick_lag_ns // 1_000_000)


def partitions_of(topology: Topology, partitions: Mapping[str, int]) -> list[PartitionName]:
    """Return all partitions of the topics that the topology reads."""
    clock = topology.topics.clock
    return [
        PartitionName(CLOCK if topic == clock else RAW, topic, partition)
        for topic in find_topics_to_read(topology)
        for partition in range(partitions[topic])
    ]


def check_session(spark: SparkSession) -> None:
    """Raise JobRefused if the session cannot run the query."""
    if spark.conf.get(STORE, "") != ROCKSDB:
        raise JobRefused(f"live keeps its state in RocksDB; leave out --conf {STORE}")
    if spark.conf.get(NO_DATA, "true") != "true":
        raise JobRefused(f"live needs batches without new records; leave out --conf {NO_DATA}")


def table(
    records: DataFrame,
    setting: Setting,
    partitions: list[PartitionName],
    tick_lag_ms: int,
    max_waiting: int,
    *,
    in_lake: bool = False,
) -> Table:
    """Return the query and its tables; `records` are those of Spark's Kafka source, with headers.

    With `in_lake` the tables are those of a backfill in Iceberg and Delta.
    """
    taken = records.select(*log_order.COLUMNS, functions.unix_millis("timestamp").alias("stamp_ms"))
    parcels = taken.mapInArrow(ReadRecords(setting).__call__, PARCELS)
    order = OrderLive(setting, partitions, tick_lag_ms, max_waiting)
    output = parcels.groupBy("group").transformWithStateInPandas(
        order, OUTPUT, "Append", "ProcessingTime"
    )
    rest_s = tick_lag_ms / 1_000 + REST_S
    made = lake_parts(topology_of(setting)) if in_lake else parts()
    return Table(NAME, output, KEYS, parts=made, named_by=TABLE, rest_s=rest_s)
