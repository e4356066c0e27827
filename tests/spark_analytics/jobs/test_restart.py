"""Oracle: a stream killed with -9 in its batches and restarted matches the batch job, row by row.
Its tables hold whole windows, each event counted once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from benchmarks.workloads import crowd
from spark_analytics.jobs.outputs import read
from tests.end_to_end.setting import Setting, fused
from tests.services import SharedKafka
from tests.spark_analytics.marks import BOTH
from tests.spark_analytics.topics import in_order, killed, run, run_apart, write_ordered
from topology.base.event import Event

pytestmark = [*BOTH, pytest.mark.kafka]

SOURCES = 20
TABLE = "windows-default"
OWN = {"spark.master": "local[2]", "spark.driver.memory": "2g", "spark.ui.enabled": "false"}

Counted = list[tuple[int, str, int, int]]
"""Start of the window in microseconds, source, events, sum."""


@dataclass(frozen=True)
class Run:
    """A run of `inorder spark run rates` on one topic."""

    setting: Setting
    folder: Path
    window: str
    per_batch: int
    tables: tuple[str, ...]

    @property
    def job(self) -> list[str]:
        tables = [word for table in self.tables for word in ("--table", table)]
        measured = ["--schema", "v BIGINT", "--sum", "payload.v"]
        return ["rates", "--window", f"tumbling {self.window}", *measured, *tables]

    @property
    def stream(self) -> list[str]:
        return [*self.job, "--max-per-batch", str(self.per_batch)]

    def has_done(self, batches: int) -> Callable[[], bool]:
        commits = self.folder / "checkpoints" / "rates" / TABLE / "commits"
        return (commits / str(batches - 1)).exists

    def check(self, spark: SparkSession, events: Sequence[Event]) -> int:
        """Assert that the tables match the batch, and the batch the events; return the number of
        windows.
        """
        want = counted(spark, self.folder / "rates-batch")
        assert sum(row[2] for row in want) == sum(not event.late for event in events)
        assert counted(spark, self.folder / "rates") == want
        return len(want)


def prepare_run(kafka: SharedKafka, folder: Path, count: int) -> tuple[Run, list[Event]]:
    """Write events of twenty sources, 12 % of them delayed, with gaps, duplicates and lateness."""
    setting = fused(kafka.bootstrap, folder)
    written = in_order(setting, crowd(count).rows)
    write_ordered(setting, written)
    events = [event for event in written if not event.kind]
    assert len({event.source for event in events}) == SOURCES
    assert len(events) > count * 0.95
    return Run(setting, folder, "20ms", count // 4, (TABLE,)), events


@pytest.mark.spark
def test_killed_stream_matches_batch(
    spark: SparkSession, kafka: SharedKafka, tmp_path: Path
) -> None:
    run_, events = prepare_run(kafka, tmp_path, 2_000)
    stream = [*run_.stream, "--every", "100ms"]
    killed(run_.setting, tmp_path, *stream, until=run_.has_done(2))
    unfinished = len(counted(spark, tmp_path / "rates"))
    run(run_.setting, tmp_path, *run_.stream, "--until-caught-up").well()
    run(run_.setting, tmp_path, *run_.job, "--batch").well()
    assert 0 < unfinished < run_.check(spark, events)


@pytest.mark.spark_long
@pytest.mark.timeout(1_800)
def test_million_events_survive_two_kills(
    spark: SparkSession, kafka: SharedKafka, tmp_path: Path
) -> None:
    """Jobs run as for a user: in their own processes, with Spark's own settings."""
    run_, events = prepare_run(kafka, tmp_path, 1_040_000)
    run_ = replace(run_, window="200ms", per_batch=100_000, tables=(TABLE, "late"))
    assert len(events) > 1_000_000
    began_s = time.monotonic()
    stream = [*run_.stream, "--every", "100ms"]
    for batches in (2, 4):
        killed(run_.setting, tmp_path, *stream, until=run_.has_done(batches), conf=OWN)
    caught_up_s = time.monotonic()
    run_apart(run_.setting, tmp_path, *run_.stream, "--until-caught-up", conf=OWN)
    streamed_s = time.monotonic()
    whole = replace(run_, tables=(TABLE,)).job
    run_apart(run_.setting, tmp_path, *whole, "--batch", conf=OWN)
    batch_s = time.monotonic() - streamed_s
    windows = run_.check(spark, events)
    late = [(event.source, event.seq) for event in events if event.late]
    aside = read(spark, str(tmp_path / "rates"), "late").select("source", "seq").collect()
    assert sorted(map(tuple, aside)) == sorted(late)
    print(
        f"{len(events)} events, {windows} windows, {len(late)} late: stream"
        f" {streamed_s - began_s:.0f} s with two kills (the last of three runs"
        f" {streamed_s - caught_up_s:.0f} s), batch {batch_s:.0f} s"
    )


def counted(spark: SparkSession, folder: Path) -> Counted:
    rows = read(spark, str(folder), TABLE)
    named = rows.selectExpr("unix_micros(start_time)", "source", "n", "sum_payload_v")
    return sorted(map(tuple, named.collect()))
