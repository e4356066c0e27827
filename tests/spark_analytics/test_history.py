"""Examples: a DataFrame of events, and a file read as format `inorder`, give the lines of a replay.
Law: a folder of files gives the lines of the whole.
"""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import DataFrame, SparkSession

from spark_analytics.backfill.kinds import TABLE_OF, TABLES, schema_of
from spark_analytics.backfill.pieces import pieces_of
from spark_analytics.history import InorderSource, RowsReader, file_rows, history
from tests.spark_analytics.backfill import streams
from tests.spark_analytics.backfill.outputs import Lines, parts_of, replayed
from tests.spark_analytics.marks import SPARK

pytestmark = [*SPARK]

TOPOLOGY = """\
streams: {s: {clock: {unsynced: trust}, reorder: {rule: fixed, max_wait: 300ms}}}
queries: {n: {window: tumbling 1s, key: payload.k, aggregate: {n: count()}}}
"""


def texts(rows: DataFrame) -> list[str]:
    return [row.line for row in rows.orderBy("stream", "position").collect()]


def recorded(folder: Path) -> tuple[Path, Lines]:
    (folder / "t.yaml").write_text(TOPOLOGY)
    lines = [
        {
            "source": f"m{seq % 3}", "seq": seq // 3, "arrival": seq * 10**8,
            "ts": (seq - 4 * (seq % 7 == 0)) * 10**8, "payload": {"k": f"k{seq % 2}"},
        }
        for seq in range(90)
    ]  # fmt: skip
    path = folder / "raw.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path, replayed(folder / "t.yaml", path)[0]


def test_format_matches_a_replay(spark: SparkSession, tmp_path: Path) -> None:
    """A missing topology and an unknown table are refused."""
    path, wanted = recorded(tmp_path)
    spark.dataSource.register(InorderSource)
    for kind in ("event", "window"):
        asked = spark.read.format("inorder").option("topology", str(tmp_path / "t.yaml"))
        found = asked.option("table", TABLE_OF[kind]).load(str(path))
        assert texts(found) == wanted["s", kind]
    with pytest.raises(Exception, match="topology is missing; write"):
        spark.read.format("inorder").load(str(path)).collect()
    with pytest.raises(Exception, match="option table: event is not one of events, gaps"):
        asked.option("table", "event").load(str(path))


def test_frame_gives_tables_of_a_replay(spark: SparkSession, tmp_path: Path) -> None:
    path, wanted = recorded(tmp_path)
    events = spark.read.json(str(path)).orderBy("ts")
    found = history(events, str(tmp_path / "t.yaml"))
    assert found.keys() == TABLES.keys()
    assert texts(found["windows"]) == wanted["s", "window"]
    assert found["windows"].where("end_time < '1970-01-01 00:00:05Z'").count() > 0
    with pytest.raises(ValueError, match="no column `arrival`"):
        history(events.drop("arrival"), str(tmp_path / "t.yaml"))


@pytest.mark.parametrize("seed", range(4))
def test_law_folder_matches_one_file(seed: int, tmp_path: Path) -> None:
    rng = Random(seed)
    setting = streams.some(seed, rng, tmp_path)
    whole = streams.recording(rng, tmp_path / "whole.jsonl")
    folder = tmp_path / "parts"
    parts_of(whole, folder, [len(whole.read_text().splitlines()) // 3])
    wanted = replayed(tmp_path / "t.yaml", whole)[0]
    for kind, table in TABLE_OF.items():
        all_rows = partial(file_rows, setting, pieces_of([str(folder)]))
        reader = RowsReader(setting, table, all_rows)
        (partition,) = reader.partitions()
        rows = [row for batch in reader.read(partition) for row in batch.to_pylist()]
        found: dict[str | None, list[str]] = {}
        for row in rows:
            found.setdefault(row["stream"], []).append(row["line"])
        assert found == {s: said for (s, each), said in wanted.items() if each == kind}, kind
        assert not rows or [*rows[0]] == schema_of(table).names
