"""A fixture with the state store that a live job needs, in the session of all tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from spark_analytics.live.run import ROCKSDB, STORE


@pytest.fixture
def rocksdb(spark: SparkSession) -> Iterator[None]:
    before = spark.conf.get(STORE)
    spark.conf.set(STORE, ROCKSDB)
    yield
    spark.conf.set(STORE, str(before))
