"""`inorder spark live` on the crowd: what an event costs, what is written of state, how late it is.

* *Catching up*: the whole raw topic in batches of `CATCH_UP`; CPU of Java and of its Python
  processes together, the second of two runs.
* *Live*: events come at `RATE`, with a batch each second. A line is late by the time between its
  `at`, which is when a worker tells it, and the end of the batch that has written it.
"""

from __future__ import annotations

import json
import statistics
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from agents.kafka.declared import declared
from agents.kafka.topics import create
from benchmarks.backlog import Setting, produce
from benchmarks.spark_jobs.course import Course
from benchmarks.spark_jobs.throughput import cpu_of, timed
from benchmarks.tables import Table, count, thousands
from benchmarks.workloads import crowd
from topology.config import parse

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from spark_analytics.jobs.outputs import Output
    from spark_analytics.jobs.running import Running

CATCH_UP: Final = 100_000
RATE: Final = 1_000
CROWD_RATE: Final = 10_000
LIVE_S: Final = 20
TICK_LAG_MS: Final = 2_000
MAX_WAITING: Final = 1_000_000
POLL_S: Final = 0.05


class Nothing:
    """Takes all rows, and counts them."""

    def __init__(self) -> None:
        self.rows = 0

    def write(self, rows: DataFrame, table: str, keys: Sequence[str], batch: int) -> None:
        self.rows += rows.count()


class Watched:
    """When each line was there."""

    def __init__(self) -> None:
        self.late_s: list[float] = []

    def write(self, rows: DataFrame, table: str, keys: Sequence[str], batch: int) -> None:
        lines = [json.loads(row["line"]) for row in rows.select("line").collect()]
        now_s = time.time()
        self.late_s += [now_s - line["at"] / 1e9 for line in lines if line["kind"] == "event"]


def measure(spark: SparkSession, course: Course, say: Callable[[str], None]) -> list[Table]:
    return [_catching_up(spark, course, say), _live(spark, course, say)]


def _catching_up(spark: SparkSession, course: Course, say: Callable[[str], None]) -> Table:
    records = len(course.raw)
    checkpoints: list[Path] = []
    batches: list[int] = []

    def run() -> None:
        checkpoints.append(course.folder / f"live-{uuid.uuid4().hex}")
        running = _started(spark, course.bootstrap, course.setting, Nothing(), checkpoints[-1])
        while running.watch.figures["live"].rows < records:
            time.sleep(POLL_S)
        batches.append(running.watch.figures["live"].batches)
        running.stop()
        running.wait()

    took = timed(run, cpu_of(spark))
    state = sum(file.stat().st_size for file in (checkpoints[-1] / "live/state").rglob("*.*"))
    table = Table(
        "inorder spark live, catching up (local[2])",
        ("records", "batches", "us CPU a record", "records/CPU s", "state written, bytes a batch"),
    )
    each_s = took.cpu_s / records
    written = state / max(1, batches[-1])
    table.add(
        count(records),
        str(batches[-1]),
        f"{1e6 * each_s:.0f}",
        thousands(1 / each_s),
        thousands(written),
    )
    say(" | ".join(table.rows[-1]))
    return table


def _live(spark: SparkSession, course: Course, say: Callable[[str], None]) -> Table:
    name = f"live-{uuid.uuid4().hex[:8]}"
    path = course.folder / f"{name}.yaml"
    path.write_text(course.setting.path.read_text().replace(course.setting.path.stem, name))
    setting = Setting(path, parse(path.read_text()))
    create(declared(setting.topology), course.bootstrap, 1)
    rows = crowd(LIVE_S * RATE).rows
    there = Watched()
    spent = cpu_of(spark)
    running = _started(
        spark, course.bootstrap, setting, there, course.folder / name, interval="1 second"
    )
    waiting = threading.Thread(target=running.wait)
    waiting.start()
    began_s = spent()
    raw = setting.topology.stream("default").input
    produce(course.bootstrap, raw, rows, speed=RATE / CROWD_RATE)
    time.sleep(3 * TICK_LAG_MS / 1_000)
    cpu_s = spent() - began_s
    running.stop()
    waiting.join()
    late_s = sorted(there.late_s)
    table = Table(
        f"inorder spark live, {RATE:,} events/s, a batch each second, --tick-lag 2s",
        ("events", "later than a worker: median", "99 %", "CPU of a core"),
    )
    table.add(
        count(len(late_s)),
        f"{statistics.median(late_s):.1f} s",
        f"{late_s[int(0.99 * len(late_s))]:.1f} s",
        f"{100 * cpu_s / (LIVE_S + 3 * TICK_LAG_MS / 1_000):.0f} %",
    )
    say(" | ".join(table.rows[-1]))
    return table


def _started(
    spark: SparkSession,
    bootstrap: str,
    setting: Setting,
    output: Output,
    folder: Path,
    interval: str | None = None,
) -> Running:
    from spark_analytics.backfill.archived import topics_read
    from spark_analytics.executors.setting import setting_of
    from spark_analytics.jobs.running import Running
    from spark_analytics.jobs.topics import KafkaTopics
    from spark_analytics.live.run import partitions_of, table

    topology = setting.topology
    names = topics_read(topology)
    topics = KafkaTopics(spark, bootstrap, streaming=True, max_per_batch=CATCH_UP)
    partitions = partitions_of(topology, dict.fromkeys(names, topology.topics.partitions))
    own = setting_of(str(setting.path), topology)
    query = table(topics.records(*names), own, partitions, TICK_LAG_MS, MAX_WAITING)
    return Running([query], output, str(folder), str(folder), interval)
