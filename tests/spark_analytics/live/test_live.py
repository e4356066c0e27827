"""End to end, without Kafka: the query over files of records, cut into batches, failing and started
again; its tables against a replay and against the columns of a backfill."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from pyarrow import parquet
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cli.spark.backfill.setting import Setting
from cli.spark.live import run
from spark_analytics.backfill.kinds import TABLE_OF, rows_of
from spark_analytics.live.lanes import CLOCK, RAW, LaneName
from spark_analytics.outputs import Folder, Output, read
from spark_analytics.running import JobFailed, Running
from spark_analytics.work import JobRefused, Table
from tests.spark_analytics.live import logs
from tests.spark_analytics.live.logs import Log, Told
from tests.spark_analytics.marks import SPARK
from tests.spark_analytics.records import MS, SCHEMA, Record
from topology.config import parse

pytestmark = [*SPARK, pytest.mark.timeout(300)]

MAX_WAITING = 100_000
PAD = 20_000
"""With it the state is larger than what a socket brings at once."""
BEGIN_S = 1_700_000_000
NEVER_QUIET_MS = 1 << 50
"""The files are old: what is not in a batch may still come in the next."""


@pytest.fixture(autouse=True)
def rocksdb(spark: SparkSession) -> Iterator[None]:
    before = spark.conf.get(run.STORE)
    spark.conf.set(run.STORE, run.ROCKSDB)
    yield
    spark.conf.set(run.STORE, str(before))


def stretches(rng: Random, log: Log) -> list[list[Record]]:
    """The log in the order in which files of it come: of each partition in its order."""
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
    """A file for each; Spark takes them by their age."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, part in enumerate(parts, start=len(list(folder.iterdir()))):
        rows = [
            {**each._asdict(), "headers": [{"key": k, "value": v} for k, v in each.headers]}
            for each in part
        ]
        path = folder / f"{number:03d}.parquet"
        parquet.write_table(pa.Table.from_pylist(rows, _RECORDS), path)
        os.utime(path, (BEGIN_S + number, BEGIN_S + number))


def query(spark: SparkSession, folder: Path, text: str, log: Log, files: int) -> Table:
    lanes = [LaneName(CLOCK if topic == logs.CLOCKS else RAW, topic, at) for topic, at in log]
    source = spark.readStream.schema(SCHEMA.replace("timestamp TIMESTAMP", "stamp_ms LONG"))
    found = source.option("maxFilesPerTrigger", files).parquet(str(folder))
    records = found.withColumn("timestamp", F.timestamp_millis("stamp_ms"))
    table = run.table(records, Setting(text), lanes, NEVER_QUIET_MS, MAX_WAITING)
    return replace(table, rest_s=0.5)


def told_in(spark: SparkSession, out: Path) -> Told:
    told: Told = defaultdict(list)
    for kind, table in TABLE_OF.items():
        rows = read(spark, str(out), table).orderBy("stream", "position")
        for row in rows.select("stream", "position", "line").collect():
            of_kind = told[row["stream"], kind]
            assert row["position"] == len(of_kind), (table, row)
            of_kind.append(row["line"])
    return dict(told)


def run_to_end(table: Table, output: Output, folder: Path) -> None:
    Running([table], output, str(folder), str(folder / "checkpoint"), None).wait()


class Failing:
    """An output that fails, before it writes or after, from that batch on."""

    def __init__(self, output: Folder, batch: int, *, late: bool) -> None:
        self._output = output
        self._batch = batch
        self._late = late

    def write(self, rows: DataFrame, table: str, keys: Sequence[str], batch: int) -> None:
        if self._late:
            self._output.write(rows, table, keys, batch)
        if batch >= self._batch:
            raise OSError("the disk is full")
        self._output.write(rows, table, keys, batch)


def until_ns(log: Log) -> int:
    """Up to when the log is known: no partition has ended before."""
    return min(max(each.stamp_ms for each in records) for records in log.values()) * MS


def test_its_tables_say_what_a_replay_says(spark: SparkSession, tmp_path: Path) -> None:
    """In batches of three files; the first run fails twice and is started again."""
    rng = Random(3)
    text = logs.topology(rng)
    log = padded(logs.log(rng, tmp_path, 200))
    topology = parse(text)
    wanted = logs.replayed(topology, logs.dumped(topology, log, until_ns(log)), until_ns(log))
    assert {"event", "gap"} <= {kind for _, kind in wanted}
    parts = stretches(rng, log)
    records, out = tmp_path / "records", tmp_path / "out"
    write(records, parts[:8])
    for late in (False, True):
        failing = Failing(Folder(str(out)), 1, late=late)
        with pytest.raises(JobFailed, match="the disk is full"):
            run_to_end(query(spark, records, text, log, 3), failing, out)
    write(records, parts[8:])
    run_to_end(query(spark, records, text, log, 3), Folder(str(out)), out)
    assert told_in(spark, out) == wanted
    assert read(spark, str(out), "overtaken").count() == 0
    columns_are_those_of_a_backfill(spark, out)


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


def test_a_session_without_rocksdb_is_refused(spark: SparkSession) -> None:
    spark.conf.set(run.STORE, "another")
    with pytest.raises(JobRefused, match="RocksDB"):
        run.require(spark)


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
