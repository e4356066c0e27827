"""Write records of topics as Parquet by stream and hour, or as one lake table, and read them back.

The layout is `<path>/stream=<name>/hour=<yyyy-MM-dd'T'HH>/batch=<number>/*.parquet`. The columns
are those of Spark's Kafka source, so code that reads a raw or ordered topic also reads its archive
(`read`). Only the stream's name is decoded, and no record is left out. A record with an unreadable
stream is written under `stream=__HIVE_DEFAULT_PARTITION__`. The hour is that of the record's
timestamp in UTC: the arrival time on the raw topic, the corrected timestamp on the ordered one.

A batch replaces the folders of its own number, so writing a batch again after a restart changes
nothing. Within a batch each stream and hour is one file, or several if it has more than `MAX_ROWS`
rows. The interval between batches (`--every`) therefore determines the size of files. A bounded run
writes batch 0.

In Iceberg and Delta the records of all topics are one table, `TABLE`, partitioned by topic and day.
It has the same columns, but `offset` is called `position`. The format itself keeps track of batches
and of the bounds of each file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from pyarrow import fs
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_analytics.backfill.place import PlaceRefused, file_system
from spark_analytics.tables.catalog import FORMATS, Format
from topology.config import HeaderConfig

TABLE: Final = "records"
MARKS: Final[Mapping[Format, str]] = {"iceberg": "metadata", "delta": "_delta_log"}
"""The subfolder by which a table of each format is recognized."""

HOUR: Final = "yyyy-MM-dd'T'HH"
MAX_ROWS: Final = 5_000_000
PARTITIONED: Final = ("stream", "hour", "batch")
SCHEMA: Final = (
    "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP,"
    " timestampType INT, headers ARRAY<STRUCT<key: STRING, value: BINARY>>,"
    " stream STRING, hour STRING, batch STRING"
)
_IN_BATCH: Final = re.compile(r"/batch=[^/]+/[^/]+\Z")
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


def place(records: DataFrame, headers: HeaderConfig) -> DataFrame:
    """Add the columns `stream` and `hour`, which determine the folder of a record."""
    place, text = _header_columns(headers.names().stream)
    absent = F.coalesce(place, F.lit(0)) == 0
    stream = F.when(absent, F.lit("default")).otherwise(F.try_validate_utf8(text))
    # The hour is in UTC, whatever the session's time zone is.
    hour = F.date_trunc("hour", F.to_utc_timestamp("timestamp", F.current_timezone()))
    columns = [name for name in COLUMNS if name in records.columns]
    return records.select(*columns, stream.alias("stream"), F.date_format(hour, HOUR).alias("hour"))


def source(headers: HeaderConfig) -> Column:
    """Return the source that a record's header names; null if there is no such header."""
    return _header_columns(headers.names().source)[1]


def _header_columns(name: str) -> tuple[Column, Column]:
    """Return the position of a header in the record, from 1, and its text.

    If it is absent, the position is 0 and the text is null.
    """
    place = F.array_position("headers.key", name).cast("int")
    return place, F.get("headers.value", place - 1).cast("string")


def write(rows: DataFrame, path: str, batch: int = 0) -> None:
    """Write rows of `place` as a batch, which replaces any earlier batch with the same number."""
    (
        rows.withColumn("batch", F.lit(batch).cast("long"))
        .repartition("stream", "hour")
        .sortWithinPartitions("stream", "hour", "topic", "partition", "offset")
        .write.mode("overwrite")
        .option("partitionOverwriteMode", "dynamic")
        .option("maxRecordsPerFile", MAX_ROWS)
        .partitionBy(*PARTITIONED)
        .parquet(path)
    )


def format_of(path: str) -> Format | None:
    """Return the format of the table at this path, or None if no table is there."""
    try:
        files, place = file_system(path, "--archive")
        marks = [f"{place}/{MARKS[kind]}" for kind in FORMATS]
        found = zip(FORMATS, files.get_file_info(marks), strict=True)
        return next((kind for kind, mark in found if mark.type == fs.FileType.Directory), None)
    except (PlaceRefused, OSError):
        return None


def table_of(path: str) -> str | None:
    """Return the path of the table of records: this path, or the subfolder that `archive` writes.

    The result is None if neither is a table.
    """
    places = (path, f"{path}/{TABLE}")
    return next((place for place in places if format_of(place) is not None), None)


def formats_of(paths: Iterable[str | None]) -> list[Format]:
    """Return the formats of the tables of records at these paths."""
    tables = [table_of(path.rstrip("/")) for path in paths if path is not None]
    found = {format_of(table) for table in tables if table is not None}
    return [kind for kind in FORMATS if kind in found]


def read(spark: SparkSession, path: str) -> DataFrame:
    """Return archived records with the columns of the Kafka source.

    A table has the records of all topics.

    Raises:
        FileNotFoundError: The path contains a file that is not part of an archive.
    """
    kind = format_of(path)
    if kind is not None:
        rows = spark.read.format(kind).load(path)
        return rows.withColumnRenamed("position", "offset").select(*COLUMNS)
    rows = spark.read.schema(SCHEMA).parquet(path)
    for file in rows.inputFiles():
        if not _IN_BATCH.search(file):
            raise FileNotFoundError(
                f"{file} is not part of an archive; name a folder that the job archive has written,"
                " and copy other files to a local or mounted folder"
            )
    return rows.select(*COLUMNS)
