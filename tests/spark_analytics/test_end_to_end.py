"""End to end: a real broker and a real worker; Spark reads what they wrote.

The judge is the plain sort of `spark_analytics.truth`. The streaming job is a process of
its own, killed between two batches; the tests' session goes on from its checkpoint.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from benchmarks.workloads import crowd
from infra.process import Process
from spark_analytics import jobs
from spark_analytics.aggregates import Windows
from spark_analytics.jobs import Table, Wanted
from spark_analytics.outputs import Folder, read
from spark_analytics.running import Running
from spark_analytics.topics import KafkaTopics
from tests.command import ROOT
from tests.end_to_end.setting import FUSED, Setting, settle
from tests.end_to_end.trouble import play
from tests.services import SharedKafka
from tests.spark_analytics.conftest import SETTINGS
from tests.spark_analytics.marks import SPARK

pytestmark = [*SPARK, pytest.mark.kafka, pytest.mark.timeout(240)]

ROWS = crowd(5_000).rows
PER_BATCH = 1_000
START_TIMEOUT_S = 90.0
WINDOW = Windows("tumbling", "20000 microseconds")
TABLE = "windows-default"


def streaming_job(setting: Setting, folder: Path) -> Process:
    """`inorder spark run rates`, without an end of its own."""
    conf = [word for name, value in SETTINGS.items() for word in ("--conf", f"{name}={value}")]
    command = [
        *(sys.executable, "-m", "cli", "spark", "run", "rates", "--out", str(folder)),
        *("--topology", str(setting.path), "--brokers", setting.bootstrap, "--table", TABLE),
        *("--window", "tumbling 20ms", "--max-per-batch", str(PER_BATCH), "--every", "100ms"),
        *conf,
    ]
    return Process("job", command, folder, {"PYTHONPATH": str(ROOT)})


def test_the_plain_sort_agrees_and_a_killed_job_goes_on(
    spark: SparkSession, kafka: SharedKafka, tmp_path: Path
) -> None:
    """Disordered events, doubled and lost ones, put in order by a worker."""
    setting = settle(kafka.bootstrap, tmp_path, stages=FUSED, partitions=1, state="memory")
    play(setting, tmp_path, ROWS, None, worker_count=1)
    job = streaming_job(setting, tmp_path)
    commits = tmp_path / "checkpoints" / "rates" / TABLE / "commits"
    job.start()
    try:
        check_truth(spark, setting)
        job.wait_until((commits / "1").exists, START_TIMEOUT_S)
    finally:
        os.killpg(job.pid, signal.SIGKILL)  # Python and its Java at once
        job.kill()
    written = read(spark, str(tmp_path / "rates"), TABLE).count()

    go_on(spark, setting, tmp_path)
    streamed = read(spark, str(tmp_path / "rates"), TABLE)
    expected = windows(spark, setting, streaming=False).rows
    names = ["start", "source", "n", "rate"]
    closed = streamed.agg({"end": "max"}).collect()[0][0]
    got = sorted(map(tuple, streamed.select(names).collect()))
    want = sorted(map(tuple, expected.where(expected["end"] <= closed).select(names).collect()))
    assert 0 < written <= len(got)
    assert len(got) > 100
    assert got == want


def check_truth(spark: SparkSession, setting: Setting) -> None:
    topics = KafkaTopics(spark, setting.bootstrap, streaming=False)
    tables = {t.name: t.rows for t in jobs.JOBS["truth"](topics, setting.topology, Wanted())}
    assert tables["differences"].collect() == []
    (row,) = tables["balance"].collect()
    different = len({(row.source, row.seq) for row in ROWS})
    assert (row.raw, row.different, row.ordered) == (len(ROWS), different, different)
    assert different < len(ROWS)


def windows(spark: SparkSession, setting: Setting, *, streaming: bool) -> Table:
    topics = KafkaTopics(spark, setting.bootstrap, streaming, max_per_batch=PER_BATCH)
    found = jobs.rates(topics, setting.topology, Wanted(windows=WINDOW))
    return next(table for table in found if table.name == TABLE)


def go_on(spark: SparkSession, setting: Setting, folder: Path) -> None:
    """From the checkpoint of the one that was killed, to the end of the topic."""
    table = windows(spark, setting, streaming=True)
    output, checkpoint = Folder(str(folder / "rates")), str(folder / "checkpoints" / "rates")
    Running([table], output, "", checkpoint, None).wait()
