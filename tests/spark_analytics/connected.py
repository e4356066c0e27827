"""Output of the functions of `spark_analytics` for a few records, as plain rows, by either kind of
session.

Run as a program, it uses Spark Connect on its own local server. A process has only one kind of
Spark function, so the two kinds cannot be compared within one process.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks.workloads import crowd, to_events
from spark_analytics import folders, silver
from spark_analytics.aggregates import Measures
from spark_analytics.jobs.definitions import JOBS
from spark_analytics.jobs.outputs import Folder, read
from spark_analytics.jobs.running import Running, run_bounded
from spark_analytics.jobs.work import JobRefused, Options, Table
from spark_analytics.payload import schema_of
from spark_analytics.session import is_connected, new_session
from tests.spark_analytics.conftest import SETTINGS
from tests.spark_analytics.records import (
    MS,
    GivenTopics,
    Record,
    ordered_records,
    raw_records,
    result,
)
from topology.config import parse
from topology.stage.stage import Stage

TOPOLOGY = """\
streams: {default: {input: raw, output: ordered, clock: {unsynced: trust}}}
queries: {counted: {window: tumbling 10s, aggregate: {n: count()}}}
"""
TABLES = {
    "events": ("events",),
    "rates": ("windows-default",),
    "disorder": ("ordered-default",),
    "clocks": ("rounds",),
}
ROWS = crowd(60).rows

Answers = dict[str, list[str]]


def given(spark: SparkSession) -> GivenTopics:
    topology = parse(TOPOLOGY)
    stage = Stage(topology, topology.stages[0].operators)
    events = to_events(ROWS)
    released = stage.on_batch(events, events[-1].arrival_ns).released
    released += stage.on_end(events[-1].arrival_ns).released
    rounds = [{f"t{at}": (number * 10 + at) * MS for at in range(1, 5)} for number in range(9)]
    words = [result(f"w{number}", 0, "emit", at=number) for number in range(5)]
    words += [result("w1", 1, "retract", at=9), result("w2", 1, "update", at=9)]
    records = {
        "raw": raw_records(ROWS),
        "ordered": ordered_records(released),
        "clock.offsets": [
            Record(b"s01", json.dumps(each).encode(), [], at, at) for at, each in enumerate(rounds)
        ],
        "results.windows": [
            Record(key, value, [], at, at) for at, (key, value) in enumerate(words)
        ],
    }
    return GivenTopics(spark, records)


def answers(spark: SparkSession, folder: Path) -> Answers:
    found: Answers = {}
    topics = given(spark)
    wanted = Options(measures=Measures(("payload.v",)), schema=schema_of("v BIGINT"))
    for job, names in TABLES.items():
        for table in JOBS[job](topics, parse(TOPOLOGY), wanted):
            if table.parts:
                parts = {part.name: part.pick(table.rows) for part in table.parts}
                found |= {
                    f"{job}/{name}": texts_of(rows) for name, rows in parts.items() if name in names
                }
                if "windows-current" in parts:
                    found["as of"] = texts_of(silver.as_of(parts["windows"], 5))
            elif table.name in names:
                found[f"{job}/{table.name}"] = texts_of(table.rows)
    rows = spark.range(3).selectExpr("id", "id % 2 AS k")
    run_bounded([Table("t", rows, ["id"])], Folder(f"{folder}/tables"), str(folder))
    found["written"] = texts_of(read(spark, f"{folder}/tables", "t"))
    there = (folders.exists(spark, f"{folder}/{name}") for name in ("tables", "none"))
    found["there"] = [str(each) for each in there]
    return found


def texts_of(rows: DataFrame) -> list[str]:
    return sorted(row[0] for row in rows.select(F.to_json(F.struct("*"))).collect())


def refused(spark: SparkSession, folder: Path) -> str:
    """Return the message of a job that needs Spark in this process."""
    stream = spark.readStream.format("rate").load()
    try:
        Running([Table("s", stream, ["value"])], Folder(str(folder)), "", str(folder), None)
    except JobRefused as error:
        return str(error)
    return ""


def main() -> None:
    folder = Path(sys.argv[1])
    # Spark's own tests start a local server like this, on a free port; `sc://` finds it then.
    os.environ["SPARK_TESTING"] = "1"
    builder = SparkSession.builder.remote("local[2]")
    for key, value in {**SETTINGS, "spark.local.dir": str(folder / "scratch")}.items():
        if key != "spark.master":
            builder = builder.config(key, value)
    builder.getOrCreate()
    spark = new_session("inorder by Connect", settings={"spark.master": "sc://localhost"})
    assert is_connected(spark)
    document = {"answers": answers(spark, folder), "refused": refused(spark, folder)}
    (folder / "answers.json").write_text(json.dumps(document))


if __name__ == "__main__":
    main()
