"""Example: a run whose lines a log keeps reports every kind of outcome, and ends."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ALL_KINDS = """
import pytest

def test_good(): pass
def test_skipped(): pytest.skip("not here")
@pytest.mark.xfail(strict=True, reason="an open fault")
def test_open(): assert False
def test_failing(): assert False
"""
PLUGIN = """
from tests import progress

def pytest_configure(config):
    config.pluginmanager.register(progress.Progress(config), "inorder-progress")
"""


def test_each_kind_of_outcome_is_in_the_summary(tmp_path: Path) -> None:
    (tmp_path / "test_kinds.py").write_text(ALL_KINDS)
    (tmp_path / "conftest.py").write_text(PLUGIN)
    root = Path(__file__).parents[1]
    folders = ["--rootdir", str(tmp_path), "--basetemp", str(tmp_path / "t")]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-ra", "-p", "no:cacheprovider", *folders, str(tmp_path)],
        check=False,
        cwd=root,
        env={"PYTHONPATH": str(root), "PATH": ""},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert run.returncode == 1, run.stdout + run.stderr
    assert "1 failed, 1 passed, 1 skipped, 1 xfailed" in run.stdout
    assert "FAILED test_kinds.py::test_failing (call)" in run.stdout
