"""Examples: in DuckDB and in Spark, the views of queries have the rows of a replay, with their
types.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pyspark.sql import SparkSession

from spark_analytics.backfill.kinds import TABLES
from spark_analytics.executors.setting import Setting
from spark_analytics.tables.views import ViewsRefused, columns_of, schema_of
from tests.cli.invoking import Answer, inorder
from tests.spark_analytics.answers import assert_refused
from tests.spark_analytics.backfill.outputs import backfill_apart, backfilled, killing, replayed
from tests.spark_analytics.marks import SPARK
from topology.config import Aggregate, Window, WindowQuery

pytestmark = [*SPARK]

TOPOLOGY = """\
streams: {s: {clock: {unsynced: trust}, reorder: {rule: fixed, max_wait: 1s}}}
queries:
  by-half minute:
    window: tumbling 30s
    key: payload.place
    aggregate: {n: count(), mean: avg(payload.v), most: max(payload.v), final: last(payload.v),
                "it's": first(payload.place)}
  rise:
    pattern: "PATTERN SEQ(a x, b y) WHERE [place, source] WITHIN 5 s
      RETURN x.v AS before, y.v - x.v AS more, x.v < y.v AS up, x.place AS hall, y.seq AS `seq`"
"""
SCHEMA = "v INT, place STRING"


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("views")
    (folder / "t.yaml").write_text(TOPOLOGY)
    recorded(folder / "raw.jsonl")
    backfilled(Setting(TOPOLOGY), [folder / "raw.jsonl"], folder / "out", 2_000)
    return folder


def recorded(path: Path) -> None:
    lines = [
        {
            "source": f"m{seq % 3}", "seq": seq // 3, "ts": (seq - 9 * (seq % 7 == 0)) * 10**9,
            "type": "ab"[seq // 3 % 2], "arrival": seq * 10**9,
            "payload": {"v": seq * seq % 17, "place": f"hall {seq % 3}"},
        }
        for seq in range(100)
    ]  # fmt: skip
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def views(folder: Path, *options: str | Path) -> Answer:
    return inorder("spark", "views", "--topology", folder / "t.yaml", *options).well()


def statements(history: Path, dialect: str) -> list[str]:
    answer = views(history, "--in", history / "out", "--dialect", dialect, "--schema", SCHEMA)
    return [each for each in answer.out.split(";\n") if each.strip()]


def expected_rows(history: Path) -> tuple[list[Any], list[Any]]:
    """Return the rows that a replay gives for both views."""
    lines, _ = replayed(history / "t.yaml", history / "raw.jsonl")
    results = [json.loads(text) for kind in ("window", "match") for text in lines["s", kind]]
    newest = {line["id"]: line["revision"] for line in sorted(results, key=lambda r: r["revision"])}
    windows, matches = [], []
    for line in results:
        own = (
            line["id"], line["start"] // 10**9, line["revision"], line["final"],
            line["revision"] == newest[line["id"]] and line["op"] != "retract",
        )  # fmt: skip
        values = tuple(line["values"].values())
        if line["kind"] == "window":
            windows.append((*own, line["key"], *values))
        else:
            matches.append((*own, *line["key"], *values))
    assert len(windows) > 10
    assert len(matches) > 10
    assert any(window[2] for window in windows)
    return sorted(windows), sorted(matches)


def test_composite_key_has_columns() -> None:
    query = WindowQuery(
        window=Window("tumbling", 10**9),
        aggregate={"n": Aggregate("count")},
        key=("payload.place", "payload.a.v", "source"),
    )
    columns = columns_of(query, {("a", "v"): "BIGINT"})
    assert [(each.name, each.path, each.type) for each in columns[:3]] == [
        ("key_place", (0,), "VARCHAR"),
        ("key_a_v", (1,), "BIGINT"),
        ("key_source", (2,), "VARCHAR"),
    ]


BY = "by-half minute"
WINDOWS = ("key", "n", "mean", "most", "value_final", "it's")
TYPES = {
    "by-half minute": {
        "start_time": "TIMESTAMP WITH TIME ZONE", "current": "BOOLEAN", "key": "VARCHAR",
        "n": "BIGINT", "mean": "DOUBLE", "most": "BIGINT",
    },
    "rise": {"before": "BIGINT", "more": "DOUBLE", "up": "BOOLEAN", "hall": "VARCHAR"},
}  # fmt: skip
MATCHES = ("place", "value_source", "before", "more", "up", "hall", "value_seq")


def rows(taken: Sequence[Any]) -> list[Any]:
    shown = []
    for row in taken:
        time: datetime = row[1]
        utc = time if time.tzinfo else time.astimezone()
        shown.append((row[0], int(utc.astimezone(UTC).timestamp()), *row[2:]))
    return sorted(shown)


def check_in_duckdb(history: Path) -> duckdb.DuckDBPyConnection:
    """Create the views in DuckDB, assert their rows and types, and return the database."""
    database = duckdb.connect()
    for each in statements(history, "duckdb"):
        database.sql(each)
    check_rows(history, '"', lambda query: database.sql(query).fetchall())
    for view in (BY, "rise"):
        described = f'SELECT column_name, column_type FROM (DESCRIBE "{view}")'
        assert dict(database.sql(described).fetchall()).items() >= TYPES[view].items()
    return database


def check_rows(history: Path, quote: str, fetch: Callable[[str], list[Any]]) -> None:
    """Assert that the views have the expected rows."""
    windows, matches = expected_rows(history)
    own = "id, start_time, revision, final, current"
    for view, columns, lines in ((BY, WINDOWS, windows), ("rise", MATCHES, matches)):
        named = ", ".join(f"{quote}{column}{quote}" for column in columns)
        assert rows(fetch(f"SELECT {own}, {named} FROM {quote}{view}{quote}")) == lines


def test_duckdb_views_match_a_replay(history: Path) -> None:
    """No column of the tables has a reserved word as its name."""
    database = check_in_duckdb(history)
    events = database.sql("SELECT source, seq, v, place FROM typed_events").fetchall()
    assert len(events) == 100
    reserved = "SELECT keyword_name FROM duckdb_keywords() WHERE keyword_category = 'reserved'"
    words = {word for (word,) in database.sql(reserved).fetchall()}
    assert {column.name for table in TABLES.values() for column in table}.isdisjoint(words)


@pytest.mark.slow
def test_duckdb_reads_the_same_after_kills(tmp_path: Path) -> None:
    """Python processes get kill -9 while they order; Spark retries their tasks."""
    marks = killing(tmp_path, number=2, kills=2)
    text = TOPOLOGY.replace("[place, source]", "[place, source] AND meets(x.v)")
    (tmp_path / "t.yaml").write_text(f"functions: own.py\n{text}")
    recorded(tmp_path / "raw.jsonl")
    backfill_apart(tmp_path, tmp_path / "raw.jsonl", "--master", "local[2,8]")
    assert len(list(marks.iterdir())) == 2
    check_in_duckdb(tmp_path)


def test_spark_views_match_a_replay(history: Path, spark: SparkSession) -> None:
    for each in statements(history, "spark"):
        spark.sql(each)
    check_rows(history, "`", lambda query: spark.sql(query).collect())


def test_trino_gets_its_own_sql(history: Path) -> None:
    answer = views(history, "--tables", "lake.plant", "--dialect", "trino")
    assert """TRY_CAST(json_extract_scalar("values", '$["n"]') AS BIGINT) AS "n",""" in answer.out
    assert "FROM lake.plant.windows WHERE query = 'by-half minute'" in answer.out


def test_match_sets_have_a_table_in_parquet(tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_text(
        "streams: {s: {}}\nqueries:\n  all:\n"
        "    pattern: PATTERN SEQ(a x, b+ y) WITHIN 5 s"
        " USING skip_till_any MATCHES MAXIMAL AS SETS\n"
    )
    for options, table in (
        (("--in", "out"), "out/match_sets/*"),
        (("--in", "out", "--format", "delta"), "delta_scan('out/matches')"),
        (("--tables", "lake.plant"), "FROM lake.plant.matches WHERE"),
    ):
        assert table in views(tmp_path, "--dialect", "duckdb", *options).out


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ((), "give --in DIR, or --tables"),
        (("--in", "x", "--dialect", "trino"), "trino reads tables of a catalog"),
        (("--in", "it's"), "rename the folder"),
        (("--in", "x", "--schema", "v STRUCT"), "'v STRUCT' is not a field of a payload"),
    ],
)
def test_bad_options_are_refused(options: Sequence[str], says: str, history: Path) -> None:
    answer = inorder("spark", "views", "--topology", history / "t.yaml", *options)
    assert_refused(answer, 2, says)


def test_name_without_json_path_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.yaml"
    path.write_text(
        'streams: {s: {}}\nqueries: {w: {window: tumbling 1s, aggregate: {"it\'s.n": count()}}}\n'
    )
    answer = inorder("spark", "views", "--topology", path, "--in", "out")
    assert_refused(answer, 2, "spark has no JSON path for this name; rename it")


def test_schema_reads_paths_of_fields() -> None:
    assert schema_of(" pos.x double,v INT ,") == {("pos", "x"): "DOUBLE", ("v",): "BIGINT"}
    with pytest.raises(ViewsRefused, match="write a path"):
        schema_of("v")
