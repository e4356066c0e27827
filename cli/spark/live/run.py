"""`inorder spark live`: records of the topics, dealt to groups, ordered by a processor.

One query: tasks that read make lines of records (`reading`), a shuffle brings those of a group
together, a processor orders them (`ordering`), and what it tells goes to a table for each kind.
The query has a batch at each interval also where nothing comes, since time goes on then.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyspark.sql import DataFrame, SparkSession, functions

from cli.spark.backfill.archived import topics_read
from cli.spark.backfill.setting import Setting, topology_of
from cli.spark.live.ordering import OrderLive
from cli.spark.live.reading import PARCELS, ReadRecords
from spark_analytics.backfill import log_order
from spark_analytics.live.in_lake import lake_parts
from spark_analytics.live.lanes import CLOCK, RAW, LaneName
from spark_analytics.live.told import KEYS, TABLE, TOLD, parts
from spark_analytics.work import JobRefused, Table
from topology.config import Topology

NAME: Final = "live"
STORE: Final = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB: Final = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
NO_DATA: Final = "spark.sql.streaming.noDataMicroBatches.enabled"
REST_S: Final = 1.0
"""A run up to the end of the topics goes on for so long, and the tick lag, when nothing comes."""


def lanes_of(topology: Topology, partitions: Mapping[str, int]) -> list[LaneName]:
    """All partitions of what the topology reads."""
    clock = topology.topics.clock
    return [
        LaneName(CLOCK if topic == clock else RAW, topic, partition)
        for topic in topics_read(topology)
        for partition in range(partitions[topic])
    ]


def require(spark: SparkSession) -> None:
    """JobRefused if the session cannot run it."""
    if spark.conf.get(STORE, "") != ROCKSDB:
        raise JobRefused(f"live keeps its state in RocksDB; leave out --conf {STORE}, or name it")
    if spark.conf.get(NO_DATA, "true") != "true":
        raise JobRefused(f"live lets time go on where nothing comes; leave out --conf {NO_DATA}")


def table(
    records: DataFrame,
    setting: Setting,
    lanes: list[LaneName],
    tick_lag_ms: int,
    max_waiting: int,
    *,
    in_lake: bool = False,
) -> Table:
    """The query; `records` as Spark's source of Kafka gives them, with headers. `in_lake`: its
    tables are those that a backfill has in Iceberg and Delta."""
    taken = records.select(*log_order.COLUMNS, functions.unix_millis("timestamp").alias("stamp_ms"))
    parcels = taken.mapInArrow(ReadRecords(setting).__call__, PARCELS)
    order = OrderLive(setting, lanes, tick_lag_ms, max_waiting)
    told = parcels.groupBy("group").transformWithStateInPandas(
        order, TOLD, "Append", "ProcessingTime"
    )
    rest_s = tick_lag_ms / 1_000 + REST_S
    made = lake_parts(topology_of(setting)) if in_lake else parts()
    return Table(NAME, told, KEYS, parts=made, named_by=TABLE, rest_s=rest_s)
