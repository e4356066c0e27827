"""End to end: Spark's results are those that a real worker emitted, and those of a replay."""

from __future__ import annotations

import json
from itertools import chain
from pathlib import Path

import pytest
from pyspark.sql import Row, SparkSession

from spark_analytics.jobs.outputs import read
from spark_analytics.silver import BOUNDED, result_topics_by_table
from tests.end_to_end.records import Read
from tests.end_to_end.setting import Setting, settle
from tests.services import SharedKafka
from tests.sinks.told import (
    QUERIES,
    STREAM,
    Line,
    is_overflow,
    lines_of,
    overflows,
    standing,
    told,
    worked,
)
from tests.spark_analytics.marks import SPARK
from tests.spark_analytics.topics import run

pytestmark = [*SPARK, pytest.mark.kafka]

EVENTS = 2_500


def from_archive(
    setting: Setting, folder: Path, form: str, topics: list[str], tables: list[str]
) -> Path:
    """Write the job's tables again, from an archive of the topics in that form."""
    there = folder / form
    run(setting, there, "archive", "--batch", "--format", form, *named(topics)).well()
    archive = ["--archive", str(there / "archive-batch")]
    run(setting, there / "again", "events", "--batch", *archive, *named(tables)).well()
    return there / "again" / "events-batch"


def named(tables: list[str]) -> list[str]:
    return [word for table in tables for word in ("--table", table)]


def assert_standing(rows: list[Row], lines: list[Line]) -> None:
    """Assert that the rows have every id, and every field of current results."""
    assert {row.id for row in rows} == {line["id"] for line in lines if not is_overflow(line)}
    assert {row.id: json.loads(row.line) for row in rows if row.current} == standing(lines)


def assert_overflows(rows: list[Row], records: list[Read]) -> None:
    control = {(each.partition, each.offset): each for each in records if each.is_control}
    found = {(row.partition, row.position): [json.loads(row.line)] for row in rows}
    assert found == {place: lines_of([each]) for place, each in control.items()}


def test_tables_match_the_worker(spark: SparkSession, kafka: SharedKafka, tmp_path: Path) -> None:
    stages = "reorder+merge+window+pattern"
    setting = settle(
        kafka.bootstrap, tmp_path, stages=stages, stream=STREAM, state="memory", more=QUERIES
    )
    expected = worked(setting, EVENTS)
    records = told(setting)
    assert overflows(lines_of(chain(*records.values()))) == overflows(expected) != set()
    topics = result_topics_by_table(setting.topology)
    tables = [*topics]
    run(setting, tmp_path, "events", "--batch", *named(tables)).well()
    folder = str(tmp_path / "events-batch")
    archived = [
        str(from_archive(setting, tmp_path, form, [*records], tables))
        for form in ("parquet", "iceberg")
    ]
    for table, own in topics.items():
        found = [record for topic in own for record in records[topic]]
        lines = lines_of(found)
        ops = {line["op"] for line in lines if not is_overflow(line)}
        assert ops == {"emit", "update", "retract"}
        latest = read(spark, folder, f"{table}-current").collect()
        assert_standing(latest, lines)
        for again in archived:
            assert sorted(read(spark, again, f"{table}-current").collect()) == sorted(latest)
        if table in BOUNDED:
            assert_overflows(read(spark, folder, f"overflows-{table}").collect(), found)
        assert read(spark, folder, f"bad-{table}").collect() == []
