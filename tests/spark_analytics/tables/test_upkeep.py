"""Example: the statements in docs/guides/spark.md leave fewer files and every row. The job still
knows its last batch.
"""

from __future__ import annotations

import os
import re
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_analytics.tables.catalog import FORMATS, Format
from spark_analytics.tables.lake import QUERY, IcebergLake, Lake, Mark, open_lake
from spark_analytics.tables.shapes import SHAPES
from tests import ROOT
from tests.spark_analytics.marks import SPARK

pytestmark = [*SPARK]

PAGE = (ROOT / "docs/guides/spark.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^\*\*(Iceberg|Delta)\*\*.*?^```sql\n(.*?)^```", re.M | re.S)
STATEMENTS = {
    match[1].lower(): match[2].split(";\n")[:-1]
    for match in BLOCK.finditer(PAGE.partition("\n### Upkeep")[2].partition("\n## ")[0])
}


def keep_up(lake: Lake, first: str = "events", second: str = "windows_current") -> None:
    """Run all statements of the lake's format; `first` and `second` stand for the page's tables."""
    for statement in STATEMENTS[lake.kind]:
        own = statement.replace("/data/lake/events/events", f"{lake.place}/{first}")
        if isinstance(lake, IcebergLake):
            own = own.replace("CALL inorder", f"CALL {lake.catalog}")
            for name, table in (("events", first), ("windows_current", second)):
                own = own.replace(f"'events.{name}'", f"'{lake.name(table).partition('.')[2]}'")
        lake.spark.sql(own).collect()


BATCHES = {"iceberg": 5, "delta": 2}
"""The number of small files of a day, which are merged into one."""
AT = datetime(2023, 11, 14, tzinfo=UTC)
OLD_S = 10 * 86_400
RESULTS = "id STRING, query STRING, revision BIGINT, start_time TIMESTAMP, n BIGINT"


@pytest.mark.in_turns(2)
@pytest.mark.parametrize("kind", FORMATS)
def test_upkeep_keeps_every_row(spark: SparkSession, tmp_path: Path, kind: Format) -> None:
    place = tmp_path / "events"
    lake = open_lake(spark, kind, str(place), "job")
    for batch in range(BATCHES[kind]):
        append(lake, spark, batch)
    tables = ["events"]
    for revision in range(2) if kind == "iceberg" else ():  # its statements have this table
        words = [(name, "q", revision, AT, revision) for name in "xy"]
        results = spark.createDataFrame(words, RESULTS)
        lake.merge("windows_current", results, SHAPES["windows_current"])
        tables = ["events", "windows_current"]
    orphan = next((place / "events").rglob("*.parquet")).with_name("left-by-a-kill.parquet")
    orphan.write_bytes(b"half a fi")
    os.utime(orphan, (time.time() - OLD_S,) * 2)
    before = {name: texts(lake.read(name)) for name in tables}
    files_before = files(lake.read("events"))
    keep_up(lake)
    if isinstance(lake, IcebergLake):
        assert "expire_snapshots" in " ".join(STATEMENTS[kind])
        expire_marks(lake)
    lake = open_lake(spark, kind, str(place), "job")
    assert {name: texts(lake.read(name)) for name in tables} == before
    assert files(lake.read("events")) < files_before
    assert not orphan.exists()
    append(lake, spark, BATCHES[kind] - 1)  # the last batch comes again
    assert texts(lake.read("events")) == before["events"]


def expire_marks(lake: IcebergLake) -> None:
    """Expire all snapshots but the newest, so that no batch has its own."""
    name = lake.name("events")
    lake.spark.sql(
        f"CALL {lake.catalog}.system.expire_snapshots(table => '{name.partition('.')[2]}',"
        " older_than => TIMESTAMP '9999-01-01', retain_last => 1)"
    ).collect()
    (left,) = lake.spark.read.table(f"{name}.snapshots").collect()
    assert QUERY not in left.summary


def append(lake: Lake, spark: SparkSession, batch: int) -> None:
    events = [("a/b", "s", 0, seq, AT) for seq in range(2 * batch, 2 * batch + 2)]
    schema = "stream STRING, source STRING, epoch BIGINT, seq BIGINT, ref_time TIMESTAMP"
    rows = spark.createDataFrame(events, schema)
    lake.append("events", rows, SHAPES["events"], Mark("q", batch))


def texts(rows: DataFrame) -> list[str]:
    return sorted(map(str, rows.collect()))


def files(rows: DataFrame) -> int:
    return rows.select(F.input_file_name()).distinct().count()
