"""End to end: Spark's results are those that a real worker told, which are those of a replay."""

from __future__ import annotations

import json
from collections import Counter
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from benchmarks.workloads import crowd
from spark_analytics.jobs.outputs import read
from tests.end_to_end.records import Read, Sender
from tests.end_to_end.setting import Setting, settle
from tests.end_to_end.worker import Worker, running
from tests.services import SharedKafka
from tests.sinks.told import (
    QUERIES,
    SPEED,
    STREAM,
    Line,
    await_expected,
    beat,
    content,
    is_overflow,
    lines_of,
    overflows,
    replayed,
    standing,
    told,
    value_of,
)
from tests.spark_analytics.marks import SPARK
from tests.spark_analytics.topics import done, run

pytestmark = [*SPARK, pytest.mark.kafka]

EVENTS = 2_500
JSON_TEXT = ("values", "low", "high", "expected", "ranges", "joined")
OURS = {"topic", "partition", "offset", "timestamp", "batch", "standing", "line"}
"""Columns that are not of the object."""


def line_of(row: Row) -> Line:
    """The JSON object that the row was made of, without what it did not say."""
    parts: dict[str, Any] = row.asDict(recursive=True)
    said = {name: part for name, part in parts.items() if part is not None}
    for name in JSON_TEXT:
        if name in said:
            said[name] = json.loads(said[name])
    for event in [*said.get("events", []), *filter(None, [said.get("event")])]:
        assert event.pop("stream") is None
    return {name: part for name, part in said.items() if name not in OURS}


def from_archive(setting: Setting, folder: Path, topics: list[str]) -> Path:
    """The job's tables `latest` once more, of the topics' archive."""
    named = [word for topic in topics for word in ("--table", topic)]
    done(run(setting, folder, "archive", "--batch", *named))
    archive = ["--archive", str(folder / "archive-batch")]
    named = [word for topic in topics for word in ("--table", f"latest-{topic}")]
    done(run(setting, folder / "again", "results", "--batch", *archive, *named))
    return folder / "again" / "results-batch"


def counted(lines: list[Line]) -> dict[str, int]:
    return dict(Counter(line["query"] for line in lines))


def assert_latest(rows: list[Row], lines: list[Line]) -> None:
    """Every id, and of those that stand every field."""
    assert {row.id for row in rows} == {line["id"] for line in lines if not is_overflow(line)}
    want = {
        id_: {name: part for name, part in line.items() if part is not None}
        for id_, line in standing(lines).items()
    }
    assert {row.id: line_of(row) for row in rows if row.standing} == want


def assert_overflows(rows: list[Row], records: list[Read]) -> None:
    control = {(each.partition, each.offset): each for each in records if each.is_control}
    assert {(row.partition, row.offset) for row in rows} == control.keys()
    for row in rows:
        (line,) = lines_of([control[row.partition, row.offset]])
        assert line_of(row) | {"kind": "overflow"} == line


def assert_summed(rows: list[Row], lines: list[Line]) -> None:
    results = [line for line in lines if not is_overflow(line)]
    updates = counted([line for line in results if line["op"] == "update"])
    retracts = counted([line for line in results if line["op"] == "retract"])
    stand = counted(list(standing(lines).values()))
    assert {row.query for row in rows} == counted(results).keys()
    for row in rows:
        assert row.standing == stand.get(row.query, 0)
        assert row.updates == updates.get(row.query, 0)
        assert row.retracts == retracts.get(row.query, 0)


def test_the_tables_hold_what_the_worker_told(
    spark: SparkSession, kafka: SharedKafka, tmp_path: Path
) -> None:
    stages = "reorder+merge+window+pattern"
    setting = settle(
        kafka.bootstrap, tmp_path, stages=stages, stream=STREAM, state="memory", more=QUERIES
    )
    rows = crowd(EVENTS, seed=5).rows
    worker = Worker("worker", setting.path, setting.bootstrap, tmp_path)
    with running(worker):
        worker.wait_ready()
        Sender(setting, rows, speed=SPEED, value=value_of).start().finish()
        beat(setting, rows)
        expected = replayed(setting, tmp_path / "raw.jsonl")
        await_expected(setting, content(expected))
        assert worker.stop() == 0, worker.log
    records = told(setting)
    assert overflows(lines_of(chain(*records.values()))) == overflows(expected) != set()
    done(run(setting, tmp_path, "results", "--batch"))
    folder = str(tmp_path / "results-batch")
    again = str(from_archive(setting, tmp_path, list(records)))
    for topic, found in records.items():
        lines = lines_of(found)
        ops = {line["op"] for line in lines if not is_overflow(line)}
        assert ops == {"emit", "update", "retract"}
        latest = read(spark, folder, f"latest-{topic}").collect()
        assert_latest(latest, lines)
        assert sorted(read(spark, again, f"latest-{topic}").collect()) == sorted(latest)
        assert_overflows(read(spark, folder, f"overflows-{topic}").collect(), found)
        assert_summed(read(spark, folder, f"queries-{topic}").collect(), lines)
        assert read(spark, folder, f"bad-{topic}").collect() == []
