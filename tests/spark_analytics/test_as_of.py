"""Oracle: the SQL in docs/guides/spark.md for current and past results agrees with `silver.as_of`.
It runs unchanged over tables of each format, at instants of revisions. Examples: which rows it
reads.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from infra.postgres import PostgresServer
from spark_analytics import silver
from spark_analytics.tables.catalog import FORMATS, Catalog
from spark_analytics.tables.lake import IcebergLake, Mark, open_lake
from spark_analytics.tables.shapes import Shape
from tests import ROOT
from tests.spark_analytics.marks import SPARK

pytestmark = [*SPARK]

BEGIN = datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
SCHEMA = "id STRING, query STRING, op STRING, revision BIGINT, at_ns BIGINT, at_time TIMESTAMP"
SHAPE = Shape((), ("query",), order=("query",))
WORDS = 60


def texts() -> tuple[str, str, str]:
    """Return the SQL of the view, of current results, and of past results."""
    page = (ROOT / "docs" / "guides" / "spark.md").read_text(encoding="utf-8")
    part = page.partition("\n### Query current and past results")[2].partition("\n##")[0]
    view, now, then = re.findall(r"^```sql\n(.*?)^```", part, re.M | re.S)
    return view, now, then


def all_revisions(spark: SparkSession) -> DataFrame:
    """Return revisions of results, with repeats, shared instants, and instants that step back."""
    rng = Random(25)
    at_us = 0
    revisions: dict[str, int] = {}
    rows = []
    for _ in range(WORDS):
        at_us += rng.choice([0, 1, 1_000])
        name = f"r{rng.randrange(9)}"
        revision = revisions.get(name, -1) + 1
        op = "emit" if not revision else rng.choice(["update", "retract"])
        said_us = at_us - 500 if rng.random() < 0.1 else at_us
        at = BEGIN + timedelta(microseconds=said_us)
        word = (name, "q", op, revision, (1_700_000_000_000_000 + said_us) * 1_000, at)
        rows += [word] * rng.choice([1, 1, 2])
        revisions[name] = revision
    return spark.createDataFrame(rows, SCHEMA)


Standing = list[tuple[str, int, str]]


def seen(rows: DataFrame) -> Standing:
    return sorted((row.id, row.revision, row.op) for row in rows.collect())


def scanned(spark: SparkSession, text: str) -> str:
    """Return the scans in Spark's plan, which show the filters that are pushed down to files."""
    plan: Any = spark.sql(text)._jdf
    lines = plan.queryExecution().executedPlan().toString().splitlines()
    return "\n".join(line for line in lines if "Scan" in line)


def test_documented_sql_matches_as_of(spark: SparkSession, tmp_path: Path) -> None:
    rows = all_revisions(spark).cache()
    view, now, then = texts()
    moments = rows.select("at_time", "at_ns").distinct().orderBy("at_time").collect()
    some = [*moments[:: len(moments) // 2], moments[-1]]
    marked = rows.withColumn("current", F.lit(True))
    wanted = {row.at_time: seen(silver.as_of(marked, row.at_ns)) for row in some}
    wanted[moments[0].at_time - timedelta(seconds=1)] = []
    assert len({str(each) for each in wanted.values()}) > 2
    places: dict[str, DataFrame] = {}
    rows.write.parquet(str(tmp_path / "windows"))
    places["parquet"] = spark.read.parquet(str(tmp_path / "windows"))
    for kind in FORMATS:
        lake = open_lake(spark, kind, str(tmp_path / kind), "job")
        lake.append("windows", rows, SHAPE, Mark("q", 0))
        places[kind] = lake.read("windows")
    for name, table in places.items():
        table.createOrReplaceTempView("windows")
        spark.sql(view)
        for moment, stood in wanted.items():
            assert seen(spark.sql(then, args={"moment": moment})) == stood, (name, moment)
        assert seen(spark.sql(now)) == wanted[moments[-1].at_time], name
        asked = {"parquet": "EqualTo(query,q)", "iceberg": "query = 'q'", "delta": "= q)"}[name]
        assert asked in scanned(spark, "SELECT * FROM windows_as_of WHERE query = 'q'"), name
        assert asked not in scanned(spark, "SELECT * FROM windows_as_of WHERE op = 'emit'"), name
    spark.catalog.dropTempView("windows")
    spark.catalog.dropTempView("windows_as_of")


@pytest.mark.postgres
def test_catalog_in_database_keeps_the_view(
    spark: SparkSession, postgres_server: PostgresServer, tmp_path: Path
) -> None:
    uri = f"jdbc:postgresql://127.0.0.1:{postgres_server.port}/postgres"
    catalog = Catalog("jdbc", uri, {"jdbc.user": "postgres"})
    rows = all_revisions(spark)
    for _ in range(2):
        lake = IcebergLake(spark, str(tmp_path / "views"), "job", catalog)
        lake.append("windows", rows, SHAPE, Mark("q", 0))
    assert lake.read("windows").count() == rows.count()
    view, now, _ = texts()
    name = lake.name("windows_as_of")
    text = view.replace("TEMPORARY ", "").replace("windows_as_of", name)
    spark.sql(text.replace("FROM windows", f"FROM {lake.name('windows')}"))
    found = seen(spark.sql(now.replace("windows_as_of", name)))
    assert found == seen(silver.as_of(rows.withColumn("current", F.lit(True)), 1 << 62))
    spark.sql(f"DROP VIEW {name}")
    lake.drop("windows")
