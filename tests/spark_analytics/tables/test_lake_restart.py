"""Oracle: tables of Iceberg written by jobs that are killed with -9 at random.

Each event is there once. Corrected results have their highest revision, and match those of the
batch job row by row. Readers see whole batches only, in tables that grow and in tables whose rows
are merged. The statements in docs/guides/spark.md remove the files that kills have left.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from benchmarks.workloads import crowd
from spark_analytics.tables.lake import IcebergLake
from tests.end_to_end.setting import Setting, fused, settle
from tests.services import SharedKafka
from tests.spark_analytics.marks import BOTH
from tests.spark_analytics.tables.test_upkeep import keep_up
from tests.spark_analytics.topics import (
    in_order,
    killed,
    results_of,
    run,
    write_ordered,
    write_results,
)
from topology.base.result import WindowResult

pytestmark = [*BOTH, pytest.mark.kafka, pytest.mark.spark_long, pytest.mark.timeout(3_000)]

EVENTS = 16_000
PER_BATCH = 500
KILLS = 5
LONGEST_S = 4.0
OLD_S = 10 * 86_400
SCHEMA = ("--schema", "v BIGINT")
RESULTS_OF = 20_000
"""Number of events."""
FEW_A_BATCH = 100
CORRECTED = """\
queries:
  n: {window: tumbling 1ms, aggregate: {n: count()}, early: 2ms, finals: true}
  w: {window: sliding 3ms every 1ms, aggregate: {n: count()}, early: 2ms}
  s: {window: session 150us, aggregate: {n: count()}, early: 2ms}
"""


def lake(spark: SparkSession, folder: Path, job: str) -> IcebergLake:
    return IcebergLake(spark, str(folder / job), job)


def killed_at_random(
    setting: Setting,
    folder: Path,
    job: Sequence[str],
    dice: random.Random,
    kills: int,
    look: Callable[[], None],
) -> None:
    """Kill the job several times, each time shortly after its next commit, and then let it finish.

    Call `look` meanwhile and afterwards.
    """
    commits = folder / "checkpoints" / "events" / "events" / "commits"
    for _ in range(kills):
        before = count(commits)
        until_s: list[float] = []

        def is_it(before: int = before, until_s: list[float] = until_s) -> bool:
            look()
            if not until_s and count(commits) > before:
                until_s.append(time.monotonic() + dice.uniform(0, LONGEST_S))
            return bool(until_s) and time.monotonic() > until_s[0]

        killed(setting, folder, *job, "--every", "100ms", until=is_it)
    run(setting, folder, *job, "--until-caught-up").well()
    look()


def count(folder: Path) -> int:
    return len([path for path in folder.glob("*") if path.name.isdigit()])


def on_disk(table: Path) -> set[str]:
    return {str(path) for path in (table / "data").rglob("*.parquet")}


def named(of: IcebergLake, table: str) -> set[str]:
    rows = of.spark.read.table(f"{of.name(table)}.all_files").select("file_path").collect()
    return {row.file_path.removeprefix("file:") for row in rows}


def test_kills_leave_each_event_once(
    spark: SparkSession, kafka: SharedKafka, tmp_path: Path
) -> None:
    setting = fused(kafka.bootstrap, tmp_path)
    written = in_order(setting, crowd(EVENTS).rows)
    write_ordered(setting, written)
    events = [event for event in written if not event.kind]
    late = sum(event.late != "" for event in events)
    tables = ("--format", "iceberg", "--max-per-batch", str(PER_BATCH))
    job = ("events", *tables, *SCHEMA, "--table", "events")
    seen: set[int] = set()
    cuts = [*range(0, len(written), PER_BATCH), len(written)]
    whole_batches = {sum(not event.kind for event in written[:cut]) for cut in cuts}

    def look() -> None:
        of = lake(spark, tmp_path, "events")
        if of.exists("events"):
            seen.add(of.read("events").count())
            assert seen <= whole_batches, "a batch by halves"

    killed_at_random(setting, tmp_path, job, random.Random(15), KILLS, look)
    assert len(seen) > 2
    found = lake(spark, tmp_path, "events").read("events")
    assert found.count() == found.select("position").distinct().count() == len(events)
    assert found.where("late").count() == late

    run_upkeep(spark, tmp_path, "events", "frontiers")
    run(setting, tmp_path, *job, "--until-caught-up").well()  # No event is added twice.
    assert found.count() == len(events)


def run_upkeep(spark: SparkSession, folder: Path, *tables: str) -> None:
    """Run the upkeep as if days had passed, and assert that only files in use are left on disk."""
    for path in folder.rglob("*"):
        if path.is_file() and "checkpoints" not in path.parts:
            os.utime(path, (time.time() - OLD_S,) * 2)
    of = lake(spark, folder, "events")
    keep_up(of, *tables)
    keep_up(of, *reversed(tables))
    for table in tables:
        assert on_disk(folder / "events" / table) <= named(of, table)


Standing = frozenset[tuple[str, int, bool]]
"""Id, revision, and whether it is current."""


def latest(words: Sequence[WindowResult]) -> Standing:
    """Return the newest revision of each result."""
    said = {word.id: word for word in words}
    return frozenset((word.id, word.revision, word.op != "retract") for word in said.values())


def test_results_after_kills_match_batch(
    spark: SparkSession, kafka: SharedKafka, tmp_path: Path
) -> None:
    stages = "reorder+merge+window"
    setting = settle(kafka.bootstrap, tmp_path, stages=stages, partitions=1, more=CORRECTED)
    words = results_of(setting, crowd(RESULTS_OF).rows)
    write_results(setting, words)
    assert {word.op for word in words} == {"emit", "update", "retract"}
    tables = ("--format", "iceberg", "--max-per-batch", str(FEW_A_BATCH))
    job = ("events", *tables, "--table", "windows")
    cuts = [*range(0, len(words), FEW_A_BATCH), len(words)]
    whole = {latest(words[:cut]) for cut in cuts}
    seen: set[Standing] = set()
    row_counts: set[int] = set()

    def look() -> None:
        of = lake(spark, tmp_path, "events")
        if of.exists("windows_current"):
            rows = of.read("windows_current").select("id", "revision", "current").collect()
            seen.add(frozenset(map(tuple, rows)))
            assert seen <= whole, "a batch by halves"
        if of.exists("windows"):
            row_counts.add(of.read("windows").count())
            assert row_counts <= set(cuts), "a batch by halves"

    killed_at_random(setting, tmp_path, job, random.Random(16), 2 * KILLS, look)
    assert len(seen) > 2
    assert len(row_counts) > 2
    run(setting, tmp_path, *job, "--batch").well()
    streamed, bounded = (lake(spark, tmp_path, name) for name in ("events", "events-batch"))
    for table in ("windows", "windows_current"):
        rows = streamed.read(table)
        want = bounded.read(table).select(*rows.columns)
        assert sorted(map(str, rows.collect())) == sorted(map(str, want.collect())), table
    assert streamed.read("windows").count() == len(words)
    final = streamed.read("windows_current").select("id", "revision", "current").collect()
    assert frozenset(map(tuple, final)) == latest(words)
    run_upkeep(spark, tmp_path, "windows", "windows_current")
    assert streamed.read("windows").count() == len(words)
