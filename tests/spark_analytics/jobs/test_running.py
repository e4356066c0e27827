"""Examples: how queries end unexpectedly, and which settings a session chooses by itself."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark import SparkConf, SparkContext
from pyspark.sql import DataFrame, SparkSession

import cli.spark.jars
from spark_analytics.jobs.errors import MAX_CHARS
from spark_analytics.jobs.running import JobFailed, Running, to_java_error
from spark_analytics.jobs.work import Table
from spark_analytics.session import PARTS, SETTINGS, new_session
from tests.spark_analytics.marks import SPARK
from tests.waiting import wait_until

pytestmark = SPARK

ASLEEP = "java_method('java.lang.Thread', 'sleep', 600000L)"


@dataclass
class Slow:
    """An output that takes ten minutes for a batch, and keeps the error that ended it."""

    has_begun: threading.Event = field(default_factory=threading.Event)
    errors: list[Exception] = field(default_factory=list)

    def write(self, rows: DataFrame, table: str, keys: Sequence[str], batch: int) -> None:
        self.has_begun.set()
        try:
            rows.sparkSession.range(1).selectExpr(ASLEEP).collect()
        except Exception as error:
            self.errors.append(error)
            raise


@dataclass
class Quick:
    has_begun: threading.Event = field(default_factory=threading.Event)

    def write(self, rows: DataFrame, table: str, keys: Sequence[str], batch: int) -> None:
        rows.collect()
        self.has_begun.set()


def running(spark: SparkSession, output: Slow | Quick, path: Path) -> Running:
    rows = spark.readStream.format("rate").option("rowsPerSecond", 1).load()
    started = Running([Table("t", rows, ("value",))], output, "", str(path), "100 milliseconds")
    output.has_begun.wait()
    return started


def test_query_stops_in_mid_batch(spark: SparkSession, tmp_path: Path) -> None:
    """Java gets a short message, which Spark recognizes as an interruption. With the trace that
    pyspark would pass on, Spark's thread runs out of stack.
    """
    output = Slow()
    started = running(spark, output, tmp_path)
    started.stop()
    started.wait()
    (error,) = output.errors
    assert isinstance(error, Py4JJavaError)
    assert len(str(error)) > 2 * MAX_CHARS
    java_error = to_java_error(error)
    assert len(str(java_error)) < MAX_CHARS
    java: Any = spark._jvm
    thrown = java.py4j.Py4JException(f"Traceback:\n  File: no\nRuntimeError: {java_error}")
    streaming = java.org.apache.spark.sql.execution.streaming
    if cli.spark.jars.release() != "4.0":
        streaming = streaming.runtime
    assert streaming.StreamExecution.isInterruptionException(thrown, spark._jsc.sc())
    (query,) = started.queries
    assert not query.isActive
    assert query.exception() is None


def test_ended_query_fails_the_job(spark: SparkSession, tmp_path: Path) -> None:
    """A query whose thread dies of a fatal error ends like this, without an exception."""
    started = running(spark, Quick(), tmp_path)
    started.queries[0].stop()
    with pytest.raises(JobFailed, match="t: has ended; only the log of Spark"):
        started.wait()


def test_batches_write_changelogs(spark: SparkSession, tmp_path: Path) -> None:
    names = [name for name in SETTINGS if "stateStore" in name]
    before = {name: spark.conf.get(name) for name in names}
    for name in names:
        spark.conf.set(name, SETTINGS[name])
    try:
        rows = spark.readStream.format("rate").option("rowsPerSecond", 100).load()
        counted = rows.withWatermark("timestamp", "1 minute").groupBy("timestamp").count()
        started = Running([Table("t", counted, ())], Quick(), "", str(tmp_path), "100 milliseconds")
        try:
            state = tmp_path / "t" / "state"
            wait_until(lambda: any(state.rglob("*.changelog")), "state")
        finally:
            started.stop()
            started.wait()
    finally:
        for name, value in before.items():
            spark.conf.set(name, str(value))
    assert len(before) == 2


def test_parts_match_cores_by_default(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    before = spark.conf.get(PARTS)
    assert before is not None
    spark.conf.set(PARTS, "7")
    try:
        assert new_session("said").conf.get(PARTS) == "7"
        monkeypatch.setattr(SparkContext, "getConf", lambda _: SparkConf(loadDefaults=False))
        assert new_session("said", settings={PARTS: "5"}).conf.get(PARTS) == "5"
        assert new_session("not said").conf.get(PARTS) == "2"
    finally:
        spark.conf.set(PARTS, before)
