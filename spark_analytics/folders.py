"""Folders on whatever file system Spark writes to, by Hadoop's own interface.

For what DataFrames have no word for: whether a folder is there, and taking one away.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession


def exists(spark: SparkSession, path: str) -> bool:
    files, place = _at(spark, path)
    return bool(files.exists(place))


def remove(spark: SparkSession, path: str) -> None:
    """The folder and all below it; nothing if there is none."""
    files, place = _at(spark, path)
    files.delete(place, True)


def _at(spark: SparkSession, path: str) -> tuple[Any, Any]:
    java: Any = spark._jvm
    place = java.org.apache.hadoop.fs.Path(path)
    return place.getFileSystem(spark._jsc.hadoopConfiguration()), place
