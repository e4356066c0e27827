"""End to end: the tutorial of docs/spark.md as it stands there, command by command, and its
notebook cell by cell."""

from __future__ import annotations

import json
import re
import runpy
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests import ROOT
from tests.cli.invoking import inorder
from tests.spark_analytics.marks import SPARK

pytestmark = [*SPARK]

PAGE = ROOT / "docs" / "spark.md"
BLOCK = re.compile(r"^```(?P<kind>console|python|sql)\n(?P<text>.*?)^```", re.M | re.S)
MIN_CORRECTED = 50


def tutorial() -> str:
    return PAGE.read_text(encoding="utf-8").partition("\n## Ten minutes")[2].partition("\n## ")[0]


def follow(console: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each command of a block; what `cat` shows is what is there."""
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
            answer = inorder(*words)
            assert answer.code == 0, answer.err


def test_it_runs_as_it_stands(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    names: dict[str, Any] = {}
    answers = []

    def here(text: str) -> str:
        """Java does not follow into another folder."""
        return text.replace("build/presses", f"{tmp_path}/build/presses")

    for block in BLOCK.finditer(here(tutorial())):
        if block["kind"] == "console":
            follow(block["text"], monkeypatch)
        elif block["kind"] == "python":
            exec(block["text"], names)
        else:
            answers.append([row.asDict() for row in names["spark"].sql(block["text"]).collect()])

    windows = names["spark"].table("windows")
    assert names["windows"].count() == windows.count()
    assert names["windows"].exceptAll(windows).count() == 0
    missing, (counted,), said, _ = answers
    dropped = [row for row in missing if row["missing"] >= row["gaps"] > 0]
    assert [row["source"] for row in dropped] == [f"press-{number}" for number in range(6)]
    assert counted["corrections"] > MIN_CORRECTED
    assert [row["revision"] for row in said] == list(range(len(said)))
    assert len({row["n"] for row in said}) > 1
    standing = names["spark"].table("standing")
    assert standing.count() == standing.select("id").distinct().count() > 0

    capsys.readouterr()
    cells = json.loads(Path("build/presses/notebook.ipynb").read_text(encoding="utf-8"))["cells"]
    for cell in cells:
        if cell["cell_type"] == "code":
            exec(here("".join(cell["source"])), names)
    assert (tmp_path / "build" / "presses" / "disorder.png").stat().st_size > 0
    behind = {name: int((each > 0).sum()) for name, each in names["behind"].items()}
    assert behind["as they arrived"] > 1_000
    assert behind["in order"] == 0 < behind["marked late"]
    of_matches = names["of_matches"]
    assert of_matches.count() == 2 * names["standing"].count() > 0
    assert names["area"] > 0.8
