"""Whether a folder is there, on whatever file system Spark writes to.

Hadoop's own interface says it. By Spark Connect a reader is asked, which lists all that lies below.
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
    # As text, whose schema is known without a file.
    reader = spark.read.format("text").option("recursiveFileLookup", "true")
    try:
        _ = reader.load(path).columns
    except AnalysisException as error:
        if error.getCondition() != ABSENT:
            raise
        return False
    return True
