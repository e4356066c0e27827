"""Examples: a run whose lines a log keeps reports every kind of outcome, and ends; where the
minutes of a run went."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.progress import NAMED_SLOWEST, where_it_went

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


def report(nodeid: str, when: str, duration_s: float) -> pytest.TestReport:
    place = nodeid, None, ""
    return pytest.TestReport(nodeid, place, {}, "passed", None, when, duration=duration_s)  # type: ignore[arg-type]


def test_the_minutes_of_a_run_are_told_by_room_and_by_test() -> None:
    reports = [
        report("tests/cli/test_a.py::test_one[x/y]", "setup", 40.0),
        report("tests/cli/test_a.py::test_one[x/y]", "call", 10.0),
        *(report(f"tests/laws/more/test_b.py::test_{n}", "call", n) for n in range(1, 13)),
        report("tests/test_c.py::test_alone", "teardown", 0.5),
    ]
    first, *slowest = where_it_went(reports)
    assert first == "seconds of tests: 128 in all; laws 78, cli 50, test_c.py 0"
    assert len(slowest) == NAMED_SLOWEST
    assert slowest[:2] == [
        "  50.0 s tests/cli/test_a.py::test_one[x/y]",
        "  12.0 s tests/laws/more/test_b.py::test_12",
    ]
    assert where_it_went(reports[1:3]) == []
