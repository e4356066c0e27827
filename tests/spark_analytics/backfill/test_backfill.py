"""End to end: `inorder spark backfill`, with Spark. Examples: refusals and exit codes."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from random import Random
from shutil import rmtree
from typing import Any

import pytest
from pyspark.sql import SparkSession

from infra.postgres import PostgresServer
from recordings.summary import Summary
from spark_analytics.backfill import pieces, run
from spark_analytics.backfill.in_lake import RESULTS, LakeTables
from spark_analytics.backfill.place import Place
from spark_analytics.backfill.resuming import PendingRows
from spark_analytics.backfill.run import find_task_slots
from spark_analytics.tables.catalog import Catalog
from spark_analytics.tables.lake import Lake, open_lake
from tests.spark_analytics.answers import assert_refused
from tests.spark_analytics.backfill import streams
from tests.spark_analytics.backfill.outputs import (
    assert_replayed,
    backfill,
    laked,
    newest_lines,
    parts_of,
    replayed,
    tabled,
)
from tests.spark_analytics.marks import SPARK

pytestmark = [*SPARK]

ONE = "streams: {s: {}}\n"


@pytest.fixture
def world(tmp_path: Path) -> Path:
    """Write a recording, and a topology with queries over it to `t.yaml`."""
    rng = Random(7)
    (tmp_path / "t.yaml").write_text(streams.topology(rng))
    return streams.recording(rng, tmp_path / "events.jsonl", 200)


@pytest.mark.parametrize("tasks", [1, 2, 7])
def test_tables_match_a_replay(
    tasks: int, world: Path, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pieces, "PIECE_BYTES", 10_000)
    monkeypatch.setattr(run, "tasks_for", lambda *_: tasks)
    answer = backfill(tmp_path, world, "--json").well()
    wanted, account = replayed(tmp_path / "t.yaml", world)
    assert tabled(tmp_path / "out") == wanted
    counted = ("in", "event", "late", "duplicate", "dead", "held", "gaps", "clock", "sources")
    for name in (*counted, "wait_ms"):
        assert answer.summary[name] == account[name], name


@pytest.mark.parametrize("form", ["iceberg", pytest.param("delta", marks=pytest.mark.long)])
def test_lake_tables_are_resumed(
    form: Any, world: Path, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A resume with other tables is refused. If a run fails midway through its tables, the next run
    completes it.
    """
    first, second = parts_of(world, tmp_path / "folder", [100])
    folder = first.parent
    later = second.rename(tmp_path / "later")
    own = ("--format", form, "--schema", "v BIGINT")
    backfill(tmp_path, folder, *own, "--no-to-end").well()
    later.rename(second)
    told = f"was written with --format {form} --schema 'v BIGINT', but this run has"
    assert_refused(backfill(tmp_path, folder, "--resume"), 2, told)
    with monkeypatch.context() as patched:
        patched.setattr(Lake, "_merge", full)  # fails after the commits of seven tables
        with pytest.raises(RuntimeError, match="the disk is full"):
            backfill(tmp_path, folder, *own, "--resume")
    second.unlink()  # the rows to add are saved, so the input is not needed
    last = backfill(tmp_path, folder, *own, "--resume").well()
    assert "is now complete; it had flushed everything" in last.err
    assert [each.name for each in tmp_path.iterdir() if each.name.startswith(".")] == []
    lake: Any = open_lake(spark, form, str(tmp_path / "out"), run.OWNER)
    wanted, _ = replayed(tmp_path / "t.yaml", world)
    assert laked(lake) == wanted
    rows = [row.line for table in RESULTS for row in lake.read(f"{table}_current").collect()]
    assert sorted(rows) == sorted(newest_lines(wanted))
    assert lake.read("bad").count() == 0
    events = lake.read("events").select("payload.v", "line").collect()
    assert {row.v for row in events} == {json.loads(row.line)["payload"]["v"] for row in events}
    again = backfill(tmp_path, folder, *own, "--resume")
    assert_refused(again, 2, "was flushed to its end")


def full(*_: Any) -> None:
    raise RuntimeError("the disk is full")


class Full(LakeTables):
    """Tables of a lake that fail after half of their rows are written."""

    def __init__(self, out: Path) -> None:
        self.out = out

    def add_pending(self, coming: PendingRows) -> None:
        (self.out / "events").write_text("half")
        full()

    def drop(self) -> None:
        (self.out / "events").unlink()


def test_failed_first_run_leaves_no_table(tmp_path: Path) -> None:
    out = tmp_path / "out"
    place = Place(str(out))
    wanted = run.Options([], str(out), "iceberg")
    output = run.RunOutput([], Summary(), {}, ())
    with pytest.raises(RuntimeError, match="the disk is full"):
        run.publish(wanted, place, Full(out), None, output, {"run": 1, "ended": True})
    place.discard()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.postgres
@pytest.mark.long
def test_catalog_in_database_knows_tables(
    world: Path, spark: SparkSession, postgres_server: PostgresServer, tmp_path: Path
) -> None:
    """A new run is refused even if the folder is gone: the catalog still knows its tables."""
    uri = f"jdbc:postgresql://127.0.0.1:{postgres_server.port}/postgres"
    where = ("--format", "iceberg", "--catalog", uri)
    own = {"INORDER_JDBC_USER": "postgres"}
    backfill(tmp_path, world, *where, env=own).well()
    catalog = Catalog("jdbc", uri, {"jdbc.user": "postgres"})
    lake = open_lake(spark, "iceberg", str(tmp_path / "out"), run.OWNER, catalog)
    wanted, _ = replayed(tmp_path / "t.yaml", world)
    events = sorted(
        line for (_, kind), lines in wanted.items() if kind == "event" for line in lines
    )
    assert sorted(row.line for row in lake.read("events").collect()) == events
    rmtree(tmp_path / "out")
    again = backfill(tmp_path, world, *where, env=own)
    assert_refused(again, 2, "out/events is in the catalog, but cannot be read")


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (("--catalog", "http://c"), "--catalog is Iceberg's; add --format iceberg"),
        (("--format", "delta", "--catalog", "http://c"), "--catalog is Iceberg's"),
        (("--schema", "v INT"), "--schema: payloads in Parquet are text"),
        (("--format", "iceberg", "--schema", "v"), "write it like `player INT, v DOUBLE`"),
        (("--format", "iceberg", "--catalog", "http://127.0.0.1:1"), "cannot be used"),
    ],
)
def test_bad_table_options_are_refused(
    more: tuple[str, ...], says: str, spark: SparkSession, tmp_path: Path
) -> None:
    """Options are checked first: the missing input is not reported."""
    assert_refused(backfill(tmp_path, tmp_path / "absent", *more, text=ONE), 2, says)
    assert [each.name for each in tmp_path.iterdir()] == ["t.yaml"]


def test_task_numbers_are_unique(spark: SparkSession) -> None:
    found = find_task_slots(spark, 5)
    rows = spark.createDataFrame([(slot,) for slot in found], "slot INT").repartition(5, "slot")
    dealt = rows.selectExpr("slot", "spark_partition_id() AS task").collect()
    assert {row["slot"]: row["task"] for row in dealt} == dict(zip(found, range(5), strict=True))


def test_inputs_are_read_as_one(spark: SparkSession, tmp_path: Path) -> None:
    """Line numbers and the arrival clock continue from file to file, even in compressed ones."""
    rng = Random(3)
    whole = streams.recording(rng, tmp_path / "whole.jsonl", 200)
    first, second, third = parts_of(whole, tmp_path / "folder", (70, 150))
    packed = tmp_path / "2.jsonl.gz"
    packed.write_bytes(gzip.compress(second.read_bytes()))
    second.unlink()
    inputs = [first.rename(tmp_path / "1.jsonl"), packed, third.parent]
    backfill(tmp_path, inputs, text=streams.topology(rng)).well()
    assert_replayed(tmp_path, whole)


@pytest.mark.parametrize(
    ("name", "content", "code", "says"),
    [
        ("absent.jsonl", None, 3, "no such file"),
        (
            "damaged.jsonl.gz",
            gzip.compress(b'{"source": "a"}\n' * 999, mtime=0)[:-9],
            3,
            "damaged gzip",
        ),
        ("nameless.csv", b"a,b\n1,2\n", 3, "no column"),
        ("dead.jsonl", b"{}\n" * 30, 4, "every line is a dead letter (30)"),
    ],
)
def test_bad_input_gives_exit_code(
    name: str, content: bytes | None, code: int, says: str, spark: SparkSession, tmp_path: Path
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    assert_refused(backfill(tmp_path, tmp_path / name, text=ONE), code, says)
    left = {each.name for each in tmp_path.iterdir()} - {"t.yaml", name}
    assert left == ({"out"} if code == 4 else set())


def test_nonempty_folder_is_refused(tmp_path: Path) -> None:
    """Output is checked first: the missing input is not reported."""
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").touch()
    refused = backfill(tmp_path, tmp_path / "absent", text=ONE)
    assert_refused(refused, 2, "does not overwrite files")


def test_filled_windows_match_a_replay(world: Path, spark: SparkSession, tmp_path: Path) -> None:
    with (tmp_path / "t.yaml").open("a") as file:
        file.write(
            "  filled: {stream: a, window: tumbling 200ms, key: payload.k, empty: {value: last,"
            " for: 1s}, aggregate: {n: count(), mean: time_avg(payload.v)}}\n"
        )
    backfill(tmp_path, world).well()
    wanted, _ = replayed(tmp_path / "t.yaml", world)
    assert tabled(tmp_path / "out") == wanted
    assert any('"n":0,"mean"' in line for line in wanted["a", "window"])
