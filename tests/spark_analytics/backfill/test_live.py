"""End to end: with Spark, a worker continues where history from an archive ends. Its clocks sync
before and after that point.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_analytics import archive
from tests.cli.invoking import inorder
from tests.end_to_end.records import Read, read_all
from tests.end_to_end.replaying import dump
from tests.end_to_end.setting import settle
from tests.end_to_end.test_clocks import CALM, ClockedSender
from tests.end_to_end.test_history import no_seam
from tests.services import SharedKafka
from tests.spark_analytics.backfill.outputs import tabled
from tests.spark_analytics.marks import SPARK
from tests.spark_analytics.records import Record, frame
from topology.config import HeaderConfig

pytestmark = [*SPARK, pytest.mark.kafka, pytest.mark.long]

QUERIES = """\
queries:
  n: {window: tumbling 500ms, aggregate: {n: count(), m: max(payload.true)}}
  w: {window: sliding 400ms every 100ms, aggregate: {n: count()}}
"""


def write_archive(spark: SparkSession, topic: str, records: Iterable[Read], folder: Path) -> None:
    """Write the records as the job `archive` does."""
    rows = [
        Record(
            read.key,
            read.value,
            tuple(read.headers),
            read.offset,
            read.timestamp_ms,
            read.partition,
            topic,
        )
        for read in records
    ]
    placed = archive.place(frame(spark, rows), HeaderConfig())
    archive.write(placed, f"{folder}/{topic}", 0)


@pytest.mark.parametrize(
    ("stages", "partitions"),
    [("reorder+merge+window", 1), ("all", 2)],
    ids=["one partition", "one task of several"],
)
def test_worker_continues_history(
    spark: SparkSession, kafka: SharedKafka, tmp_path: Path, stages: str, partitions: int
) -> None:
    """With several partitions the rule is fixed, because a learning rule would learn separately in
    each partition.
    """
    setting = settle(
        kafka.bootstrap,
        tmp_path,
        stages=stages,
        partitions=partitions,
        clock="unsynced: estimate, sync: udp",
        stream="" if partitions == 1 else "reorder: {rule: fixed, max_wait: 400ms}",
        more=CALM + QUERIES,
    )
    ClockedSender(setting, seed=5).start().finish()
    raw = read_all(setting.bootstrap, setting.raw)
    until_ms = sorted(read.timestamp_ms for read in raw)[len(raw) * 6 // 10]
    history = [read for read in raw if read.timestamp_ms <= until_ms]
    clocks = read_all(setting.bootstrap, setting.topology.topics.clock)
    heard = [read for read in clocks if read.timestamp_ms <= until_ms]
    assert len(heard) > 20
    write_archive(spark, setting.raw, history, tmp_path / "archive")
    write_archive(spark, setting.topology.topics.clock, heard, tmp_path / "archive")

    out = tmp_path / "out"
    asked = ("--topology", setting.path, "--in", tmp_path / "archive", "--out", out)
    done = inorder("spark", "backfill", *asked, "--no-to-end")
    assert done.code == 0, done.err
    lines = [json.loads(line) for texts in tabled(out).values() for line in texts]

    assert dump(setting, tmp_path / "raw.jsonl") == len(raw) + len(clocks)
    no_seam(setting, lines, out, tmp_path / "raw.jsonl", tmp_path / "live")
