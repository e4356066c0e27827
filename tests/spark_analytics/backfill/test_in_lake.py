"""Law: daily runs into Iceberg and Delta match a replay of the whole, even if they are killed while
they add rows. Examples: what is refused before any write, and names as in the job `events`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_analytics import silver
from spark_analytics.backfill import resuming
from spark_analytics.backfill.in_lake import EVERY_WORD, RESULTS, LakeTables
from spark_analytics.backfill.place import Place
from spark_analytics.backfill.resuming import Known, PendingRows, Resumed, TableForm
from spark_analytics.backfill.run import OWNER, RunOutput
from spark_analytics.backfill.work import OrderGroups
from spark_analytics.executors.setting import Setting, digests
from spark_analytics.jobs.running import rename_offset
from spark_analytics.jobs.work import Options
from spark_analytics.payload import schema_of
from spark_analytics.tables.catalog import Format, TablesRefused
from spark_analytics.tables.lake import IcebergLake, Lake, Mark, open_lake
from tests.spark_analytics.backfill import streams
from tests.spark_analytics.backfill.outputs import (
    laked,
    newest_lines,
    parts_of,
    replayed,
    tasks_run,
)
from tests.spark_analytics.marks import SPARK
from tests.spark_analytics.records import GivenTopics
from topology.config import parse

pytestmark = [*SPARK]

TOPOLOGY = """\
streams: {a: {reorder: {rule: fixed, max_wait: 400ms}}, b: {}, c: {}, d: {reorder: {late: drop}}}
queries:
  fixed: {stream: a, window: tumbling 1s, key: payload.k, aggregate: {n: count()}}
  near: {join: interval 50ms, sides: {x: {stream: a}, y: {stream: b}}, outer: full}
  pairs: {stream: d, pattern: "PATTERN SEQ(A x, B y) WITHIN 300 ms"}
  sets: {stream: a, pattern: "PATTERN SEQ(A x, C y) WITHIN 200 ms\
 USING skip_till_any MATCHES ALL AS SETS"}
"""
SCHEMA = "v BIGINT, k STRING"


class Killed(BaseException):
    """A kill: no code after it runs."""


def lake_dying_at(lake: Lake, dies_at: int) -> Lake:
    """Return the lake, which dies right after commit number `dies_at` (0: never)."""
    commits = 0

    def then(write: Callable[..., None]) -> Callable[..., None]:
        def writing(*args: Any) -> None:
            nonlocal commits
            write(*args)
            commits += 1
            if commits == dies_at:
                raise Killed

        return writing

    lake.append, lake.merge = then(lake.append), then(lake.merge)  # type: ignore[method-assign]
    return lake


class Runs:
    """A backfill in several runs, ordered in this process."""

    def __init__(self, spark: SparkSession, kind: Format, folder: Path) -> None:
        self.spark, self.kind, self.out = spark, kind, folder / "out"
        self.setting = Setting(TOPOLOGY)

    def lake(self) -> Lake:
        return open_lake(self.spark, self.kind, str(self.out), OWNER)

    def tables(self, lake: Lake | None = None) -> LakeTables:
        return LakeTables(lake or self.lake(), parse(TOPOLOGY), schema_of(SCHEMA))

    def run(self, part: Path, *, last: bool = False, dies_at: int = 0) -> None:
        resumed = Resumed(str(self.out), first=not self.out.exists())
        place = Place(str(self.out), adds=True)
        order = OrderGroups(self.setting, place.staged, to_end=last)
        if resumed.known["run"]:
            order = order._replace(begin=resumed.begin, states=resumed.states())
        output = tasks_run(self.setting, [part], order, 5_000)
        attempt = Path(place.staged) / "events" / "attempt-that-failed.parquet"
        attempt.write_bytes(b"half")
        coming = PendingRows(
            resumed.known["run"] + 1,
            place.staged,
            output.files,
            self._now(resumed, output, last),
            {},
        )
        resumed.add(place, coming, self.tables(lake_dying_at(self.lake(), dies_at)))

    def _now(self, resumed: Resumed, output: RunOutput, last: bool) -> Known:
        now: Known = {"run": resumed.known["run"] + 1, "topology": digests(self.setting)}
        now["tables"] = TableForm()
        if last:
            return now | {"ended": True}
        return now | {"begin": output.end, "states": output.states, "files": {}, "offsets": {}}

    def finished(self) -> bool:
        """Finish the pending run as the next process does, and return whether there was one."""
        return Resumed(str(self.out)).finish(self.tables())


@pytest.mark.parametrize(
    ("kind", "parts", "kills"), [("iceberg", 4, (1, 5, 3)), ("delta", 2, (5,))]
)
@pytest.mark.long
@pytest.mark.timeout(1_200)  # ten tables of Delta take minutes on a busy machine
def test_killed_daily_runs_match_a_replay(
    spark: SparkSession,
    tmp_path: Path,
    kind: Format,
    parts: int,
    kills: Sequence[int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`kills` lists the commits after which the first days' runs die. The last day's run dies
    between the tables and the state.
    """
    whole = streams.recording(Random(0), tmp_path / "whole.jsonl", 120)
    count = len(whole.read_text().splitlines())
    found = parts_of(whole, tmp_path / "days", [count * n // parts for n in range(1, parts)])
    (tmp_path / "t.yaml").write_text(TOPOLOGY)
    runs = Runs(spark, kind, tmp_path)
    for number, day in enumerate(found[:-1]):
        if number >= len(kills):
            runs.run(day)
            continue
        with pytest.raises(Killed):
            runs.run(day, dies_at=kills[number])
        day.unlink()  # the rows to add are saved, so the input is not needed
        assert not runs.finished()
    with monkeypatch.context() as patched:
        patched.setattr(resuming, "keep_states", kill)
        with pytest.raises(Killed):
            runs.run(found[-1], last=True)
    assert runs.finished()
    wanted, _ = replayed(tmp_path / "t.yaml", whole)
    lake = runs.lake()
    assert laked(lake) == wanted
    for table in RESULTS:
        keys = lake.read(table).select(*EVERY_WORD.keys).collect()
        assert len(set(keys)) == len(keys), table
    rows = [row for table in RESULTS for row in lake.read(f"{table}_current").collect()]
    assert sorted(row.line for row in rows) == sorted(newest_lines(wanted))
    assert {row.current for row in rows} == {True, False}
    assert all(row.current == (row.op != "retract") for row in rows)
    at_ns = json.loads(wanted["a", "window"][len(wanted["a", "window"]) // 2])["at"]
    by_then = {
        at: [line for line in lines if json.loads(line)["at"] <= at_ns]
        for at, lines in wanted.items()
        if at[1] == "window"
    }
    stood = silver.as_of(lake.read("windows"), at_ns).collect()
    kept = {line for line in newest_lines(by_then) if json.loads(line)["op"] != "retract"}
    assert {row.line for row in stood} == kept
    first = lake.read("events").orderBy("stream", "position").collect()[0]
    assert json.loads(first.line)["payload"] == first.payload.asDict()
    assert not list(tmp_path.glob(".out-*"))
    assert sorted(each.name for each in (runs.out / "_state").iterdir()) == ["current.json"]


def kill(*_: Any) -> None:
    raise Killed


def test_foreign_tables_are_refused_first(spark: SparkSession, tmp_path: Path) -> None:
    lake = IcebergLake(spark, str(tmp_path / "out"), "rates")
    tables = LakeTables(open_lake(spark, "iceberg", str(tmp_path / "out"), OWNER), parse(TOPOLOGY))
    tables.require(made=False)
    with pytest.raises(TablesRefused, match="no longer exists"):
        tables.require(made=True)
    gaps = next(each for each in tables.tables if each.name == "gaps")
    lake.append("gaps", tables.rows(gaps, {}), gaps.shape, Mark("q", 0))
    for made, says in (
        (None, "gaps belongs to rates, not to inorder spark backfill"),
        (False, "out/gaps exists already"),
    ):
        with pytest.raises(TablesRefused, match=says):
            tables.require(made=made)
    assert [each.name for each in (tmp_path / "out").iterdir()] == ["gaps"]
    tables.drop()
    assert not lake.exists("gaps")


OF_TOPICS = {"frontiers", "bad_late", "bad_gaps", "bad_windows", "bad_matches", "bad_joins"}
PLACE = {"topic", "partition", "timestamp"}


def test_names_match_those_of_job_events(spark: SparkSession, tmp_path: Path) -> None:
    """Shared columns have the same types as well."""
    lake = open_lake(spark, "iceberg", str(tmp_path / "out"), OWNER)
    topology, schema = parse(TOPOLOGY), schema_of(SCHEMA)
    tables = LakeTables(lake, topology, schema)
    found = {each.name: tables.rows(each, {}) for each in tables.tables}
    job = {
        part.name.replace("-", "_"): rename_offset(part.pick(table.rows))
        for table in silver.events_tables(GivenTopics(spark), topology, Options(schema=schema))
        for part in table.list_written()
    }
    assert set(job) - set(found) == OF_TOPICS
    assert set(found) - set(job) == {"duplicates"}
    for name in set(found) & set(job):
        mine, theirs = found[name].schema, job[name].schema
        shared = {*mine.fieldNames()} & {*theirs.fieldNames()}
        assert {each: mine[each].dataType for each in shared} == {
            each: theirs[each].dataType for each in shared
        }, name
        if name.split("_")[0] in RESULTS:
            assert {*mine.fieldNames()} == shared, name
            assert {*theirs.fieldNames()} - shared <= PLACE, name
