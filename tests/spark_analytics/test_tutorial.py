"""End to end: the tutorial in docs/guides/spark.md as it is written, command by command. Its
notebook runs cell by cell, here and in Jupyter's kernel, and Spark and DuckDB read its tables.
"""

from __future__ import annotations

import json
import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests import ROOT
from tests.cli.invoking import inorder
from tests.spark_analytics.marks import SPARK

pytestmark = [*SPARK]

PAGE = ROOT / "docs" / "guides" / "spark.md"
BLOCK = re.compile(r"^```(?P<kind>console|python|sql)\n(?P<text>.*?)^```", re.M | re.S)
MIN_CORRECTED = 50
FOUND = """
import json
print(json.dumps({
    "behind": {name: int((each > 0).sum()) for name, each in behind.items()},
    "matches": standing.count(),
    "events of them": of_matches.count(),
    "current windows": windows.count(),
    "windows, as DuckDB counts": int(worst.windows.sum()),
    "area": area,
}))
"""


def section(title: str) -> str:
    """Return the page's text below this heading."""
    page = PAGE.read_text(encoding="utf-8")
    return page.partition(f"\n## {title}")[2].partition("\n## ")[0]


def run_in_this_process(notebook: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """Run the cells of the notebook one by one, and return what they found."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    names: dict[str, Any] = {}
    for cell in cells:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), names)
    capsys.readouterr()
    exec(FOUND, names)
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def run_in_jupyter(notebook: Path) -> dict[str, Any]:
    """Run the cells of the notebook in a Jupyter kernel, and return what they found."""
    document = json.loads(notebook.read_text(encoding="utf-8"))
    document["cells"].append({**document["cells"][-1], "id": "found", "source": FOUND})
    notebook.write_text(json.dumps(document), encoding="utf-8")
    done = subprocess.run(
        [Path(sys.executable).parent / "jupyter-execute", "--inplace", notebook],
        capture_output=True,
        check=False,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    (said,) = json.loads(notebook.read_text(encoding="utf-8"))["cells"][-1]["outputs"]
    found: dict[str, Any] = json.loads("".join(said["text"]))
    return found


def follow(console: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run each command of a block, and assert that the page shows what `cat` prints."""
    commands = [part.splitlines() for part in re.split(r"^\$ ", console, flags=re.M) if part]
    for command, *shown in commands:
        program, *words = shlex.split(command)
        if program == "cat":
            assert shown == Path(words[0]).read_text(encoding="utf-8").splitlines()
        elif program == "python":
            monkeypatch.setattr(sys, "argv", words)
            runpy.run_path(words[0], run_name="__main__")
        else:
            assert program == "inorder"
            inorder(*words).well()


@pytest.fixture
def text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the tutorial with absolute paths: Java does not change its working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    return section("Try it in ten minutes").replace("build/presses", f"{tmp_path}/build/presses")


def test_tutorial_runs_as_written(
    text: str,
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    names: dict[str, Any] = {}
    answers = []
    for block in BLOCK.finditer(text):
        if block["kind"] == "console":
            follow(block["text"], monkeypatch)
        elif block["kind"] == "python":
            exec(block["text"], names)
        else:
            answers.append([row.asDict() for row in names["spark"].sql(block["text"]).collect()])

    windows = names["spark"].table("windows")
    replayed = names["windows"].cache()  # Each read is a replay.
    assert replayed.count() == windows.count()
    assert replayed.exceptAll(windows).count() == 0
    missing, (counted,), said, _ = answers
    dropped = [row for row in missing if row["missing"] >= row["gaps"] > 0]
    assert [row["source"] for row in dropped] == [f"press-{number}" for number in range(6)]
    assert counted["corrections"] > MIN_CORRECTED
    assert [row["revision"] for row in said] == list(range(len(said)))
    assert len({row["n"] for row in said}) > 1
    standing = names["spark"].table("current")
    assert standing.count() == standing.select("id").distinct().count() > 0

    by_spark, by_duckdb = read_in_both_engines(tmp_path)
    assert by_spark == by_duckdb
    assert by_spark.count("mean") > 100

    # The cells look for these files, as an editor would have them.
    notebook = tmp_path / "build" / "presses" / "notebook.ipynb"
    here = notebook.read_text(encoding="utf-8").replace("build/presses", str(notebook.parent))
    notebook.write_text(here, encoding="utf-8")
    assert_found(run_in_this_process(notebook, capsys), notebook.parent)


def read_in_both_engines(folder: Path) -> list[str]:
    """Return the current windows, as the page reads them in Spark and in DuckDB."""
    spark, duckdb = (
        block["text"].replace("build/presses", f"{folder}/build/presses")
        for block in BLOCK.finditer(section("Open the tables"))
        if "current = " in block["text"]
    )
    told = []
    for text, rows in (
        (spark, "current.select('id', 'values').collect()"),
        (duckdb, "current.project('id, \"values\"').fetchall()"),
    ):
        names: dict[str, Any] = {}
        exec(text, names)
        told.append(str(sorted(tuple(row) for row in eval(rows, names))))
    return told


@pytest.mark.long
def test_notebook_runs_in_jupyter(
    text: str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for block in BLOCK.finditer(text):
        if block["kind"] == "console":
            follow(block["text"], monkeypatch)
    notebook = tmp_path / "build" / "presses" / "notebook.ipynb"
    assert_found(run_in_jupyter(notebook), notebook.parent)


def assert_found(found: dict[str, Any], folder: Path) -> None:
    assert (folder / "disorder.png").stat().st_size > 0
    behind = found["behind"]
    assert behind["as they arrived"] > 1_000
    assert behind["in order"] == 0 < behind["marked late"]
    assert found["matches"] > 0
    assert found["events of them"] == 2 * found["matches"]
    assert found["current windows"] == found["windows, as DuckDB counts"] > 0
    assert found["area"] > 0.8
