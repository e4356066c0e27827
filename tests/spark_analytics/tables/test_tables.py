"""Examples: tables of Iceberg and Delta take each batch once and hold the newest row of a key.
Foreign tables are refused before anything is written.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from cli.local.ports import free_ports
from spark_analytics.tables.catalog import (
    EXTENSIONS,
    FORMATS,
    Catalog,
    Format,
    TablesRefused,
    catalog_of,
    declare_catalog,
    require_extension,
    split_path,
)
from spark_analytics.tables.lake import Mark, open_lake
from spark_analytics.tables.shapes import SHAPES
from tests.spark_analytics.marks import SPARK

pytestmark = [*SPARK]

EVENTS = "stream STRING, source STRING, epoch BIGINT, seq BIGINT, ref_time TIMESTAMP"
RESULTS = "id STRING, query STRING, revision BIGINT, start_time TIMESTAMP, n BIGINT"


def at(day: int, second: int = 0) -> datetime:
    return datetime(2023, 11, day, 23, 59, second, tzinfo=UTC)


def events(spark: SparkSession, numbers: range) -> DataFrame:
    rows = [("a/b", "s", 0, seq, at(14 + seq % 2, seq)) for seq in numbers]
    return spark.createDataFrame(rows, EVENTS)


def results(spark: SparkSession, *rows: tuple[str, int, int]) -> DataFrame:
    return spark.createDataFrame([(i, "q", r, at(14), n) for i, r, n in rows], RESULTS)


def files(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("place", "parts"),
    [
        ("/lake", ("/", "lake")),
        ("lake", (".", "lake")),
        ("a/lake/", ("a", "lake")),
        ("s3a://b/lake", ("s3a://b", "lake")),
    ],
    ids=["root", "here", "below", "bucket"],
)
def test_place_is_split_into_parts(place: str, parts: tuple[str, str]) -> None:
    assert split_path(place) == parts


@pytest.mark.in_turns(2)
@pytest.mark.parametrize("kind", FORMATS)
def test_batches_are_idempotent(spark: SparkSession, tmp_path: Path, kind: Format) -> None:
    """Another job, other columns, and a merge without a key are refused."""
    place = str(tmp_path / "job")
    first = open_lake(spark, kind, place, "job")
    shape = SHAPES["events"]
    first.append("events", events(spark, range(6)), shape, Mark("q", 0))
    first.append("events", events(spark, range(6, 9)), shape, Mark("q", 1))
    again = open_lake(spark, kind, place, "job")  # After a kill the last batch comes again.
    again.append("events", events(spark, range(6, 9)), shape, Mark("q", 1))
    again.append("events", events(spark, range(9, 12)), shape, Mark("q", 2))
    found = again.read("events")
    assert found.columns == events(spark, range(0)).columns
    assert sorted(row.seq for row in found.collect()) == list(range(12))
    folders = {str(p.parent.relative_to(tmp_path)) for p in (tmp_path).rglob("*.parquet")}
    assert {name.rpartition("=")[2] for name in folders} >= {"2023-11-14", "2023-11-15"}

    shape = SHAPES["windows_current"]
    words = results(spark, ("x", 0, 1), ("x", 1, 2), ("y", 0, 5))
    again.merge("windows", words, shape)
    again.merge("windows", results(spark, ("x", 2, 7), ("z", 0, 0)), shape)
    again.merge("windows", words, shape)  # older revisions after newer ones
    rows: list[Row] = again.read("windows").orderBy("id").collect()
    assert [(r.id, r.revision, r.n) for r in rows] == [("x", 2, 7), ("y", 0, 5), ("z", 0, 0)]

    again.replace("windows", results(spark, ("w", 0, 9)), shape)
    assert [row.id for row in again.read("windows").collect()] == ["w"]

    before = files(tmp_path)
    mark, others = Mark("q", 3), open_lake(spark, kind, place, "other")
    with pytest.raises(TablesRefused, match="belongs to job, not to other; name another"):
        others.append("events", events(spark, range(1)), shape, mark)
    narrow = events(spark, range(1)).drop("seq")
    with pytest.raises(TablesRefused, match="other columns .*seq: bigint there, absent now"):
        open_lake(spark, kind, place, "job").append("events", narrow, shape, mark)
    with pytest.raises(TablesRefused, match="there is no key or no column that decides which"):
        open_lake(spark, kind, place, "job").merge("events", found, SHAPES["events"])
    assert {path for path in files(tmp_path) - before if path.suffix == ".parquet"} == set()


@pytest.mark.in_turns(2)
@pytest.mark.parametrize("kind", FORMATS)
def test_new_columns_and_fields_are_added(
    spark: SparkSession, tmp_path: Path, kind: Format
) -> None:
    place, shape = str(tmp_path / "job"), SHAPES["windows_current"]
    narrow = f"{RESULTS}, payload STRUCT<v: BIGINT>"
    wide = f"{RESULTS}, share DOUBLE, payload STRUCT<room: STRING, v: BIGINT>"
    before = [("x", "q", 0, at(14), 1, Row(v=7)), ("y", "q", 0, at(14), 1, Row(v=8))]
    after = [("x", "q", 1, at(14), 2, 0.5, Row(room="lab", v=9))]
    lake = open_lake(spark, kind, place, "job")
    lake.merge("windows", spark.createDataFrame(before, narrow), shape)
    again = open_lake(spark, kind, place, "job")
    again.merge("windows", spark.createDataFrame(after, wide), shape)
    columns = ["id", "n", "share", "payload.room", "payload.v"]
    rows = again.read("windows").orderBy("id").select(*columns).collect()
    assert [tuple(row) for row in rows] == [("x", 2, 0.5, "lab", 9), ("y", 1, None, None, 8)]
    other = spark.createDataFrame([], wide.replace("v: BIGINT", "v: STRING"))
    with pytest.raises(TablesRefused, match=r"\(payload.v: bigint there, string now\)"):
        open_lake(spark, kind, place, "job").merge("windows", other, shape)


def test_unusable_catalog_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    shut = f"127.0.0.1:{free_ports(1)[0]}"
    for uri in (f"http://{shut}", f"jdbc:postgresql://{shut}/none"):
        with pytest.raises(TablesRefused, match="cannot be used .* correct --catalog") as refused:
            open_lake(spark, "iceberg", str(tmp_path / "out"), "job", catalog_of(uri))
        assert shut in str(refused.value)
        assert "\n" not in str(refused.value)
    with pytest.raises(TablesRefused, match="write jdbc:postgresql"):
        catalog_of("thrift://metastore:9083")
    with pytest.raises(TablesRefused, match="rename on s3a: is not one step"):
        open_lake(spark, "iceberg", "s3a://bucket/out", "job")
    with pytest.raises(TablesRefused, match="Delta keeps its log beside the data"):
        open_lake(spark, "delta", str(tmp_path), "job", Catalog("rest", "http://x"))
    assert files(tmp_path) == set()


def test_catalog_belongs_to_a_place(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session without the format's extension is refused."""
    names = [declare_catalog(spark, Catalog(), str(tmp_path / name)) for name in "aba"]
    assert names[0] == names[2] != names[1]
    monkeypatch.setitem(EXTENSIONS, "delta", "one.that.nobody.has")
    with pytest.raises(TablesRefused, match="cannot write delta: start it with"):
        require_extension(spark, "delta")
