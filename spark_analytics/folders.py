"""Check whether a folder exists, on any file system that Spark writes to.

The check uses Hadoop's own interface. Under Spark Connect it uses a reader, which lists everything
in the folder.
"""

from __future__ import annotations

from typing import Any, Final

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from spark_analytics.session import is_connected

ABSENT: Final = "PATH_NOT_FOUND"


def exists(spark: SparkSession, path: str) -> bool:
    if is_connected(spark):
        return _is_readable(spark, path)
    java: Any = spark._jvm
    place = java.org.apache.hadoop.fs.Path(path)
    return bool(place.getFileSystem(spark._jsc.hadoopConfiguration()).exists(place))


def _is_readable(spark: SparkSession, path: str) -> bool:
    # Spark knows the schema of text files without reading one.
    reader = spark.read.format("text").option("recursiveFileLookup", "true")
    try:
        _ = reader.load(path).columns
    except AnalysisException as error:
        if error.getCondition() != ABSENT:
            raise
        return False
    return True
