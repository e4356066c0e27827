"""Examples: archives, folders of batches and checkpoints can be written again."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from cli.spark.job import make_output
from spark_analytics import archive
from spark_analytics.jobs.running import CheckpointRefused, claim
from spark_analytics.jobs.topics import ArchivedTopics
from spark_analytics.jobs.work import Part, Table
from tests.spark_analytics.marks import SPARK
from tests.spark_analytics.records import Record, frame
from topology.config import HeaderConfig

pytestmark = SPARK

HOUR_MS = 3_600_000

NAMES = ("words", "folded")


def test_archive_keeps_every_record(spark: SparkSession, tmp_path: Path) -> None:
    streams: list[list[tuple[str, bytes | None]]] = [
        [("streamId", b"a/b")],
        [("streamId", b"1")],
        [],
        [("streamId", b"\xff")],
    ]
    sent = [
        Record(b"k", b"v", streams[offset % 4], offset, offset * HOUR_MS // 3)
        for offset in range(24)
    ]
    sent.append(Record(None, None, [], 24, -5))
    rows = archive.place(frame(spark, sent), HeaderConfig())
    path = str(tmp_path / "t")
    archive.write(rows.where("offset < 12"), path, 0)
    archive.write(rows.where("offset >= 12"), path, 1)
    archive.write(rows.where("offset >= 12"), path, 1)  # The batch failed, and is repeated.
    found = ArchivedTopics(spark, str(tmp_path)).records("t")
    assert found.columns == frame(spark, sent).columns
    assert sorted(map(repr, found.collect())) == sorted(map(repr, frame(spark, sent).collect()))
    folders = {str(file.parent.relative_to(path)) for file in Path(path).rglob("*.parquet")}
    assert "stream=1/hour=1970-01-01T00/batch=0" in folders
    assert "stream=default/hour=1969-12-31T23/batch=1" in folders
    assert any(name.startswith("stream=a%2Fb") for name in folders)
    assert any(name.startswith("stream=__HIVE_DEFAULT_PARTITION__") for name in folders)


def test_foreign_file_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    spark.range(1).write.parquet(str(tmp_path / "t"))
    with pytest.raises(FileNotFoundError, match=r"parquet is not part of an archive; name"):
        ArchivedTopics(spark, str(tmp_path)).records("t")


def test_parquet_leaves_out_folded_tables(spark: SparkSession, tmp_path: Path) -> None:
    """In Parquet, where rows are only added, `windows_current` would have every revision."""
    rows = spark.createDataFrame([("a", 1)], "id STRING, n INT")
    parts = [Part(name, ["id"], lambda rows: rows, folds=name == "folded") for name in NAMES]
    asked: Any = SimpleNamespace(formats=[], folder=str(tmp_path))
    there = make_output(asked, [Table("t", rows, ["id"], parts=parts)], spark)
    for part in parts:
        there.write(rows, part.name, part.keys, 0)
    assert [each.name for each in tmp_path.iterdir()] == ["words"]
    assert [there.has_batches(spark, name) for name in NAMES] == [True, False]


def test_checkpoint_belongs_to_one_job(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "checkpoint")
    about = {"job": "rates", "window": "tumbling 10s"}
    claim(spark, path, about)
    claim(spark, path, about)
    # The first live jobs in a lake left claims without a version of the columns.
    for now, says in (
        (
            {"columns": 2},
            r"\(another version made its tables, with other columns\); name another --checkpoint",
        ),
        (
            {"window": "session 5s", "columns": 2},
            r"settings \(window: .*session 5s now\); name",
        ),
    ):
        with pytest.raises(CheckpointRefused, match=says):
            claim(spark, path, {**about, **now})
