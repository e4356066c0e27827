"""Example: Spark's recipe in docs/guides/results.md, as written there."""

from __future__ import annotations

import json

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tests.services import SharedKafka, UniqueName
from tests.sinks.table import publish, recipe
from tests.sinks.topic import ResultsProducer
from tests.spark_analytics.marks import SPARK

pytestmark = [*SPARK, pytest.mark.kafka]


def test_documented_merge_keeps_rows(
    spark: SparkSession, kafka: SharedKafka, unique_name: UniqueName
) -> None:
    topic = unique_name("speeds").replace("-", "_")
    kafka.create_topic(topic, 3)
    spark.sql(f"CREATE TABLE {topic} (key BINARY, value BINARY) USING delta")
    with ResultsProducer(kafka.bootstrap, topic) as producer:
        rows = publish(producer)
        options = {"subscribe": topic, "startingOffsets": "earliest"}
        options |= {"kafka.bootstrap.servers": kafka.bootstrap}
        options |= {"kafka.isolation.level": "read_committed"}
        records = spark.readStream.format("kafka").options(**options).load()
        exec(recipe("Spark", {"speeds": topic}), {"records": records, "F": F})
        (query,) = spark.streams.active
        query.processAllAvailable()
        query.stop()
    found = spark.table(topic).collect()
    assert {row.key.decode(): json.loads(row.value) for row in found} == rows
