"""Records of a topic as Parquet, by stream and hour, and back.

Layout: `<path>/stream=<name>/hour=<yyyy-MM-dd'T'HH>/batch=<number>/*.parquet`. The columns
are those of Spark's Kafka source, so whatever reads a topic reads its archive (`read`), raw
or ordered; nothing is decoded but the stream's name, and no record is left out: one whose
stream cannot be read lies under `stream=__HIVE_DEFAULT_PARTITION__`. The hour is that of
the record's timestamp in UTC: append time on the raw topic, reference time on the ordered.

Each batch of a stream replaces the folders of its own number, so a batch that is written
again after a restart changes nothing. Within a batch each stream and hour is one file, up
to `max_rows` rows: how large files grow is settled by how often a batch is due
(`--trigger`). A bounded run writes batch 0.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from topology.description import HeaderConfig

HOUR: Final = "yyyy-MM-dd'T'HH"
MAX_ROWS: Final = 5_000_000
PARTITIONED: Final = ("stream", "hour", "batch")
SCHEMA: Final = (
    "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP,"
    " timestampType INT, headers ARRAY<STRUCT<key: STRING, value: BINARY>>,"
    " stream STRING, hour STRING, batch BIGINT"
)
COLUMNS: Final = (
    "key",
    "value",
    "topic",
    "partition",
    "offset",
    "timestamp",
    "timestampType",
    "headers",
)


def placed(records: DataFrame, headers: HeaderConfig) -> DataFrame:
    """Records with the `stream` and `hour` they are kept under."""
    name = headers.names().stream
    found = F.filter("headers", lambda header: header["key"] == F.lit(name))
    text = F.get(found, F.lit(0))["value"].cast("string")
    absent = F.coalesce(F.size(found), F.lit(-1)) <= 0
    stream = F.when(absent, F.lit("default")).otherwise(F.try_validate_utf8(text))
    # In UTC, whatever the session's time zone is.
    hour = F.date_trunc("hour", F.to_utc_timestamp("timestamp", F.current_timezone()))
    columns = [name for name in COLUMNS if name in records.columns]
    return records.select(*columns, stream.alias("stream"), F.date_format(hour, HOUR).alias("hour"))


def write(rows: DataFrame, path: str, batch: int = 0, max_rows: int = MAX_ROWS) -> None:
    """Write `placed` rows as that batch; a batch of the same number is replaced."""
    (
        rows.withColumn("batch", F.lit(batch).cast("long"))
        .repartition("stream", "hour")
        .sortWithinPartitions("stream", "hour", "topic", "partition", "offset")
        .write.mode("overwrite")
        .option("partitionOverwriteMode", "dynamic")
        .option("maxRecordsPerFile", max_rows)
        .partitionBy(*PARTITIONED)
        .parquet(path)
    )


def read(spark: SparkSession, path: str) -> DataFrame:
    """The records again, with the columns of the Kafka source."""
    return spark.read.schema(SCHEMA).parquet(path).select(*COLUMNS)
