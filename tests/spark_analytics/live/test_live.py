"""End to end, without Kafka: a live query over files of records, in batches, failing and restarted.
Its tables match a replay, and have the columns of a backfill.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from pyarrow import parquet
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType

from spark_analytics.backfill.in_lake import RESULTS, LakeTables
from spark_analytics.backfill.kinds import TABLE_OF, rows_of
from spark_analytics.executors.setting import Setting
from spark_analytics.jobs.outputs import Folder, Output, read
from spark_analytics.jobs.running import JobFailed, Running
from spark_analytics.jobs.work import JobRefused, Table
from spark_analytics.live import run
from spark_analytics.live.in_lake import lake_parts
from spark_analytics.live.line_tables import OUTPUT, nested_of
from spark_analytics.tables.catalog import Format
from spark_analytics.tables.lake import open_lake
from spark_analytics.tables.output import LakeOutput
from tests.spark_analytics.backfill.outputs import Lines, append_rows, laked, newest_lines
from tests.spark_analytics.live import logs
from tests.spark_analytics.live.logs import Log
from tests.spark_analytics.marks import SPARK
from tests.spark_analytics.records import MS, SCHEMA, Record
from topology.config import parse

pytestmark = [*SPARK, pytest.mark.usefixtures("rocksdb")]

MAX_WAITING = 100_000
PAD = 20_000
"""Bytes of padding, so that the state is larger than one read of a socket."""
BEGIN_S = 1_700_000_000
NEVER_QUIET_MS = 1 << 50
"""The files are old, but a line that is not in a batch may still come in the next."""


def stretches(rng: Random, log: Log) -> list[list[Record]]:
    """Cut the log into files, and mix them in an order that keeps each partition's order."""
    cut: list[list[list[Record]]] = []
    for records in log.values():
        at = sorted(rng.sample(range(1, len(records)), 3)) if len(records) > 3 else []
        ends = [*at, len(records)]
        cut.append([records[a:b] for a, b in zip([0, *at], ends, strict=True) if a < b])
    found = []
    while left := [parts for parts in cut if parts]:
        found.append(rng.choice(left).pop(0))
    return found


def write(folder: Path, parts: Sequence[Sequence[Record]]) -> None:
    """Write a file for each part; Spark reads the files by age."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, part in enumerate(parts, start=len(list(folder.iterdir()))):
        rows = [
            {**each._asdict(), "headers": [{"key": k, "value": v} for k, v in each.headers]}
            for each in part
        ]
        path = folder / f"{number:03d}.parquet"
        parquet.write_table(pa.Table.from_pylist(rows, _RECORDS), path)
        os.utime(path, (BEGIN_S + number, BEGIN_S + number))


def query(
    spark: SparkSession, folder: Path, text: str, log: Log, files: int, *, in_lake: bool = False
) -> Table:
    source = spark.readStream.schema(SCHEMA.replace("timestamp TIMESTAMP", "stamp_ms LONG"))
    found = source.option("maxFilesPerTrigger", files).parquet(str(folder))
    records = found.withColumn("timestamp", F.timestamp_millis("stamp_ms"))
    table = run.table(
        records, Setting(text), logs.names_of(log), NEVER_QUIET_MS, MAX_WAITING, in_lake=in_lake
    )
    return replace(table, rest_s=0.5)


def lines_in(spark: SparkSession, out: Path) -> Lines:
    lines: Lines = defaultdict(list)
    for kind, table in TABLE_OF.items():
        rows = read(spark, str(out), table).orderBy("stream", "position")
        append_rows(lines, kind, rows.select("stream", "position", "line").collect())
    return dict(lines)


def run_to_end(table: Table, output: Output, folder: Path) -> None:
    Running([table], output, str(folder), str(folder / "checkpoint"), None).wait()


class Failing:
    """An output that fails from that batch on, before or after it writes, at all tables or one."""

    def __init__(self, output: Output, batch: int, *, late: bool, table: str = "") -> None:
        self._output = output
        self._batch = batch
        self._late = late
        self._table = table

    def write(self, rows: DataFrame, table: str, keys: Sequence[str], batch: int) -> None:
        fails = batch >= self._batch and self._table in ("", table)
        if self._late or not fails:
            self._output.write(rows, table, keys, batch)
        if fails:
            raise OSError("the disk is full")


def replay_of(text: str, log: Log) -> Lines:
    """Return a replay up to the time until which the log is known: before the end of every
    partition.
    """
    topology = parse(text)
    until_ns = min(max(each.stamp_ms for each in records) for records in log.values()) * MS
    lines = logs.dumped(topology, chain(*log.values()))
    return logs.replayed(topology, [each for each in lines if each["arrival"] < until_ns], until_ns)


def test_tables_match_a_replay(spark: SparkSession, tmp_path: Path) -> None:
    """Batches have four files. The first run fails twice and is restarted."""
    rng = Random(3)
    text = logs.topology(rng)
    log = padded(logs.log(rng, tmp_path, 60))
    wanted = replay_of(text, log)
    assert {"event", "gap"} <= {kind for _, kind in wanted}
    parts = stretches(rng, log)
    records, out = tmp_path / "records", tmp_path / "out"
    write(records, parts[:8])
    for late in (False, True):
        failing = Failing(Folder(str(out)), 1, late=late)
        with pytest.raises(JobFailed, match="the disk is full"):
            run_to_end(query(spark, records, text, log, 4), failing, out)
    write(records, parts[8:])
    run_to_end(query(spark, records, text, log, 4), Folder(str(out)), out)
    assert lines_in(spark, out) == wanted
    assert read(spark, str(out), "overtaken").count() == 0
    columns_are_those_of_a_backfill(spark, out)


CORRECTED = "quality: {accuracy: 50%, max_wait: 1ms}"
QUERIES = f"""\
queries:
  fixed: {{stream: a, window: tumbling 1s, key: payload.k, aggregate: {{n: count()}}, {CORRECTED}}}
  near: {{join: interval 50ms, sides: {{x: {{stream: a}}, y: {{stream: b}}}}, outer: full}}
  pairs: {{stream: c, pattern: "PATTERN SEQ(A x, B y) WITHIN 2 s"}}
  sets: {{stream: a, pattern: "PATTERN SEQ(A x, C y) WITHIN 200 ms\
 USING skip_till_any MATCHES ALL AS SETS"}}
"""


def full_workload(folder: Path) -> tuple[str, Log]:
    """Return a topology and a log that fill every table."""
    rng = Random(8)
    text = logs.topology(rng).partition("queries:")[0] + QUERIES
    return f"{text}topics: {{clock: {logs.CLOCKS}, partitions: 2}}\n", logs.log(rng, folder, 120)


PER_BATCH = 6
"""Files in a batch, of twelve."""


def test_lake_has_tables_of_backfill(spark: SparkSession, tmp_path: Path) -> None:
    """Columns are those of a backfill. Each line goes to the table of its kind, and results go to
    two tables.
    """
    text, log = full_workload(tmp_path)
    topology = parse(text)
    said = replay_of(text, log)
    rows = []
    for (stream, kind), lines in said.items():
        for position, line in enumerate(lines):
            nested = nested_of(TABLE_OF[kind], json.loads(line))
            rows.append((TABLE_OF[kind], stream, position, line, nested))
    frame_of_lines = spark.createDataFrame(rows, OUTPUT)
    lake = open_lake(spark, "iceberg", str(tmp_path / "out"), "live")
    of_backfill = LakeTables(lake, topology)
    tables = {each.name: each for each in of_backfill.tables}
    parts = {part.name: part for part in lake_parts(topology)}
    assert set(parts) == {*tables, "overtaken"}
    for name, each in tables.items():
        found = parts[name].pick(frame_of_lines)
        assert columns(found) == columns(of_backfill.rows(each, {})), name
        wanted = sorted(line for table, *_, line, _ in rows if table in each.kinds)
        if not name.startswith("overflows"):
            assert sorted(row.line for row in found.select("line").collect()) == wanted, name
            assert wanted or name == "dead", name
        assert parts[name].newer == ("revision" if name.endswith("_current") else None)
        assert parts[name].folds == name.endswith("_current")


def columns(frame: DataFrame) -> list[tuple[str, DataType]]:
    return [(field.name, field.dataType) for field in frame.schema]


@pytest.mark.long
@pytest.mark.parametrize("kind", ["iceberg", "delta"])
@pytest.mark.timeout(900)  # a dozen tables with many commits each take minutes on a busy machine
def test_failed_batch_is_redone_in_lake(kind: Format, spark: SparkSession, tmp_path: Path) -> None:
    """A first run fails in its last batch, after appends and a merge, which are repeated. Tables
    still have each line once, and the newest revision of each result.
    """
    text, log = full_workload(tmp_path)
    wanted = replay_of(text, log)
    assert {"event", "gap", "window", "match", "match_set", "join"} <= {at[1] for at in wanted}
    records, out = tmp_path / "records", tmp_path / "out"
    write(records, stretches(Random(0), log))

    def opened(table: Table) -> LakeOutput:
        return LakeOutput(open_lake(spark, kind, str(out), "live"), [table])

    table = query(spark, records, text, log, PER_BATCH, in_lake=True)
    failing = Failing(opened(table), 1, late=True, table="windows_current")
    with pytest.raises(JobFailed, match="the disk is full"):
        run_to_end(table, failing, out)
    table = query(spark, records, text, log, PER_BATCH, in_lake=True)
    run_to_end(table, opened(table), out)
    lake = open_lake(spark, kind, str(out), "live")
    assert laked(lake) == wanted
    rows = [row for name in RESULTS for row in lake.read(f"{name}_current").collect()]
    assert sorted(row.line for row in rows) == sorted(newest_lines(wanted))
    assert {"emit", "update"} <= {row.op for row in rows}
    assert all(row.current == (row.op != "retract") for row in rows)
    assert lake.read("overtaken").count() == 0
    tables = LakeTables(lake, parse(text))
    for each in tables.tables:
        assert columns(lake.read(each.name)) == columns(tables.rows(each, {})), each.name


def padded(log: Log) -> Log:
    return {place: [pad(each) for each in records] for place, records in log.items()}


def pad(each: Record) -> Record:
    if each.topic == logs.CLOCKS or not isinstance(payload := json.loads(each.value or b"0"), dict):
        return each
    return each._replace(value=json.dumps(payload | {"pad": "x" * PAD}).encode())


def columns_are_those_of_a_backfill(spark: SparkSession, out: Path) -> None:
    for table in TABLE_OF.values():
        rows = read(spark, str(out), table).drop("batch").orderBy("stream", "position")
        found = rows.toArrow().to_pylist()
        lines = [json.loads(row["line"]) for row in found]
        same = rows_of(table, lines, [row["position"] for row in found]).to_pylist()
        assert [{**row, "line": ""} for row in found] == [{**row, "line": ""} for row in same]


def test_session_needs_rocksdb(spark: SparkSession) -> None:
    spark.conf.set(run.STORE, "another")
    with pytest.raises(JobRefused, match="RocksDB"):
        run.check_session(spark)


_RECORDS = pa.schema(
    {
        "key": pa.binary(),
        "value": pa.binary(),
        "topic": pa.string(),
        "partition": pa.int32(),
        "offset": pa.int64(),
        "stamp_ms": pa.int64(),
        "timestampType": pa.int32(),
        "headers": pa.list_(pa.struct({"key": pa.string(), "value": pa.binary()})),
    }
)
