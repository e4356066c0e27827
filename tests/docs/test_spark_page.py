"""Example: the SQL of docs/guides/spark.md opens the tables in Spark and DuckDB."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import cli.spark.jars
from cli.program import PROGRAM
from tests import ROOT
from tests.kit.programs import ended
from tests.services import require
from tests.spark_analytics.marks import SPARK

pytestmark = [*SPARK]

PAGE = (ROOT / "docs/guides/spark.md").read_text(encoding="utf-8")
SECTION = PAGE.partition("\n## Open the tables")[2].partition("\n## ")[0]
BLOCK = re.compile(r"^\*\*(?P<engine>\w+)[^\n]*\n.*?^```\w+\n(?P<text>.*?)^```", re.M | re.S)
SAID = "\nprint(sorted((row[0], row[1]) for row in {rows}))\n"
ROWS = {
    "Spark": "current.select('id', 'values').collect()",
    "DuckDB": "current.project('id, \"values\"').fetchall()",
}


def run(folder: Path, *words: str) -> str:
    done = ended(*words, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_both_engines_open_the_tables_of_the_tutorial(tmp_path: Path) -> None:
    require(cli.spark.jars.missing())
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    run(tmp_path, sys.executable, "docs/examples/presses.py", "build/presses/raw.jsonl")
    words = ["--in", "build/presses/raw.jsonl", "--out", "build/presses/history"]
    words += ["--topology", "docs/examples/presses.yaml"]
    run(tmp_path, *PROGRAM, "spark", "backfill", *words)
    blocks = {block["engine"]: block["text"] for block in BLOCK.finditer(SECTION)}
    assert blocks.keys() >= ROWS.keys()
    spark, duckdb = (
        run(tmp_path, sys.executable, "-c", blocks[engine] + SAID.format(rows=rows))
        for engine, rows in ROWS.items()
    )
    assert spark == duckdb
    assert spark.count("mean") > 100
