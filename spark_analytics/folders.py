"""Folders on whatever file system Spark writes to, by Hadoop's own interface.

For what DataFrames have no word for: whether a folder is there, what lies in it, and taking one
away. By Spark Connect the first is asked by a reader, which lists all that lies below; the others
are refused.
"""

from __future__ import annotations

from typing import Any, Final

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from spark_analytics.session import is_connected, require_java

ABSENT: Final = "PATH_NOT_FOUND"


def exists(spark: SparkSession, path: str) -> bool:
    if is_connected(spark):
        return _is_readable(spark, path)
    files, place = _at(spark, path)
    return bool(files.exists(place))


def within(spark: SparkSession, path: str) -> list[str]:
    """The names of what lies in the folder, in no order; nothing if there is none."""
    require_java(spark, "to list folders")
    files, place = _at(spark, path)
    if not files.exists(place):
        return []
    return [str(each.getPath().getName()) for each in files.listStatus(place)]


def remove(spark: SparkSession, path: str) -> None:
    """The folder and all below it; nothing if there is none."""
    require_java(spark, "to remove folders")
    files, place = _at(spark, path)
    files.delete(place, True)


def _is_readable(spark: SparkSession, path: str) -> bool:
    # As text, whose schema is known without a file.
    reader = spark.read.format("text").option("recursiveFileLookup", "true")
    try:
        _ = reader.load(path).columns
    except AnalysisException as error:
        if error.getCondition() != ABSENT:
            raise
        return False
    return True


def _at(spark: SparkSession, path: str) -> tuple[Any, Any]:
    java: Any = spark._jvm
    place = java.org.apache.hadoop.fs.Path(path)
    return place.getFileSystem(spark._jsc.hadoopConfiguration()), place
