"""A MERGE of results reads only the files that can contain their ids, and the table stays correct.

Examples: files that need not be read are damaged, so reading one fails. Oracle: seeded revisions of
windows, sessions and matches, merged batch by batch, match a plain fold.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from spark_analytics import silver
from spark_analytics.jobs.work import Part, Table
from spark_analytics.tables import bounds
from spark_analytics.tables.bounds import MAX_SPANS, Span, reduce_spans
from spark_analytics.tables.catalog import Format
from spark_analytics.tables.lake import open_lake
from spark_analytics.tables.output import LakeOutput
from spark_analytics.tables.shapes import SHAPES, Settled, Shape
from tests.spark_analytics.marks import SPARK
from topology.config import parse

pytestmark = [*SPARK]

ODD = "it's \\ `odd`"
SETTLED = Settled("query", "start_time", frozenset({"w", ODD}))
SCHEMA = "id STRING, query STRING, revision BIGINT, start_time TIMESTAMP, start BIGINT"
SPOILT = "(?i)is not a parquet file|checksum"
BEGIN = datetime(2023, 11, 14, 12, tzinfo=UTC)
DAY_NS = 86_400 * 10**9
Word = tuple[str, str | None, int, int | None]
"""Id, query, revision, and the day of its start."""


def frame(spark: SparkSession, *words: Word) -> DataFrame:
    rows = []
    for name, query, revision, day in words:
        at = None if day is None else BEGIN + timedelta(days=day)
        rows.append((name, query, revision, at, None if day is None else day * DAY_NS))
    return spark.createDataFrame(rows, SCHEMA)


def current_rows(lake: Any) -> dict[str, tuple[str | None, int, int | None]]:
    rows = lake.read("current").collect()
    assert len({row.id for row in rows}) == len(rows)
    return {
        row.id: (row.query, row.revision, None if row.start is None else row.start // DAY_NS)
        for row in rows
    }


@pytest.mark.in_turns(3)
@pytest.mark.parametrize(
    ("kind", "shape"),
    [
        ("iceberg", Shape(("id",), ("query",), "start_time", (), "revision", SETTLED)),
        ("delta", Shape(("id",), ("query",), "start_time", (), "revision", SETTLED)),
        (
            "iceberg",
            Shape(("id",), ("query",), None, (), "revision", replace(SETTLED, time="start")),
        ),
    ],
)
def test_unaffected_files_are_not_read(
    spark: SparkSession, tmp_path: Path, kind: Format, shape: Shape
) -> None:
    lake = open_lake(spark, kind, str(tmp_path / "job"), "job")
    old: list[Word] = [("a", "w", 0, 0), ("b", "w", 0, 1), ("x", "s", 0, 0)]
    lake.merge("current", frame(spark, *old), shape)
    for path in (tmp_path / "job" / "current").rglob("*.parquet"):
        path.write_bytes(b"spoilt")
    new: list[Word] = [
        *(("c", "w", 0, 9), ("d", ODD, 0, 0), ("e", None, 0, 0), ("f", "w", 0, None)),
        ("y", "t", 0, 9),
    ]
    lake.merge("current", frame(spark, *new), shape)
    theirs: list[Word] = [("a", "w", 1, 0), ("x", "s", 1, 9)]
    for word in theirs:
        with pytest.raises((PySparkException, Py4JError), match=SPOILT):
            lake.merge("current", frame(spark, word), shape)
    with pytest.raises((PySparkException, Py4JError), match=SPOILT):
        lake.read("current").collect()


def test_merged_results_match_a_fold(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "MAX_SPANS", 5)
    rng = Random(12)
    lake = open_lake(spark, "iceberg", str(tmp_path / "job"), "job")
    shape = Shape(("id",), ("query",), "start_time", (), "revision", SETTLED)
    wanted: dict[str, tuple[str | None, int, int | None]] = {}
    for _ in range(3):
        words: list[Word] = []
        for _ in range(40):
            query, number, revision = (
                rng.choice(["w", ODD, "s"]),
                rng.randrange(12),
                rng.randrange(5),
            )
            moved = revision * 17 if query == "s" else 0
            day = (number * 7 + moved) % 90
            words.append((f"{query}{number}", query, revision, day))
        lake.merge("current", frame(spark, *words), shape)
        for word in words:
            if word[0] not in wanted or word[2] > wanted[word[0]][1]:
                wanted[word[0]] = word[1:]
        assert current_rows(lake) == wanted


def test_spans_are_few_and_cover_all() -> None:
    spans = [Span("a", day, day + 1) for day in range(100)]
    spans += [Span("b", day, day + 1) for day in range(0, 20, 2)]
    spans += [Span("b", has_null=True), Span("c", is_any=True)]
    found = reduce_spans(spans)
    assert len(found) <= MAX_SPANS
    assert Span("a", 0, 100) in found
    assert {span for span in spans if span.value != "a"} < set(found)
    many = [Span(str(number), day, day) for number in range(MAX_SPANS) for day in (0, 5)]
    assert reduce_spans([*many, Span("0", has_null=True)]) == [
        Span("0", 0, 5, has_null=True),
        *(Span(str(number), 0, 5) for number in range(1, MAX_SPANS)),
    ]


def test_topology_decides_settled_columns(spark: SparkSession, tmp_path: Path) -> None:
    topology = parse("""\
streams: {a: {}, b: {}}
queries:
  tumbling: {stream: a, window: tumbling 1s, aggregate: {n: count()}}
  sliding: {stream: a, window: sliding 2s every 1s, aggregate: {n: count()}}
  session: {stream: a, window: session 1s, aggregate: {n: count()}}
  counted: {stream: a, window: count 10, aggregate: {n: count()}}
  joined: {join: interval 50ms, sides: {x: {stream: a}, y: {stream: b}}}
  pattern: {stream: a, pattern: "PATTERN SEQ(A x, B y) WITHIN 300 ms"}
""")
    settled = replace(silver.settled_by_id(topology), time="start")
    assert settled.timed == {"tumbling", "sliding", "joined"}
    rows = frame(spark, ("a", "tumbling", 0, 0), ("b", "session", 0, 3))
    part = Part("latest", ("id",), lambda rows: rows, newer="revision", settled=settled)
    table = Table("latest", rows, ("id",), parts=[part])
    lake = open_lake(spark, "iceberg", str(tmp_path / "results"), "results")
    LakeOutput(lake, [table]).write(rows, "latest", ("id",), 0)
    assert lake.read("latest").count() == 2
    folders = {path.parent.name for path in tmp_path.rglob("*.parquet")}
    assert folders == {"query=tumbling", "query=session"}
    assert SHAPES["windows_current"].settled == Settled("query", "start_time")
