"""Laws of the two tiers: each test is in one, and the first keeps its budget. Examples: how tests
are chosen and selected.
"""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import Mock

import pytest

from tests import ROOT, seeds
from tests.tiers.choice import Measured, choose
from tests.tiers.plan import (
    BUDGET_S,
    FIRST,
    PLAN,
    REST,
    Plan,
    function_of,
    get_tier,
    parse,
    read_plan,
    write,
)
from tests.tiers.recorder import Marker, Recorder, read
from tests.tiers.selection import Selection, takes_all
from tests.tiers.source import find_seeded, read_source
from tests.tiers.wanted import GUARANTEES, TEST, list_wanted

MODULES = sorted((ROOT / "tests").rglob("test_*.py"))


def id_of(path: Path, name: str) -> str:
    return f"{path.relative_to(ROOT).as_posix()}::{name}"


def test_each_test_is_in_a_tier() -> None:
    there, elsewhere = set[str](), set[str]()
    for path in MODULES:
        found = read_source(path)
        there |= {id_of(path, name) for name in found.tests}
        elsewhere |= {id_of(path, name) for name in found.elsewhere}
    planned = read_plan().functions
    assert sorted(there - elsewhere - planned) == [], "run make tiers with these modules as ARGS"
    assert sorted(planned - there) == [], "delete these lines of tests/tiers.toml"


def test_first_tier_keeps_its_budget() -> None:
    """Committed seconds count, so a busy machine fails no test."""
    assert sum(read_plan().first.values()) <= BUDGET_S


def test_first_tier_has_wanted_tests() -> None:
    assert [name for name in list_wanted() if not read_plan().has_some(name)] == []


def test_each_guarantee_names_a_test() -> None:
    page = GUARANTEES.read_text(encoding="utf-8")
    here, elsewhere, _ = page.split("\n## ")
    rows = [row.strip("| ").split(" | ") for row in here.splitlines() if row.startswith("| ")][2:]
    assert len(rows) >= 20
    for promise, _, first in rows:
        assert all(TEST.fullmatch(name) for name in first.split(", ")), promise
    rows = [row.strip("| ").split(" | ") for row in elsewhere.splitlines() if row[:2] == "| "][2:]
    for promise, _, command in rows:
        assert re.match(r"`make [\w-]+`: \[", command), promise


def test_first_tier_is_complete(request: pytest.FixtureRequest) -> None:
    """Without this test, a renamed case would leave the first tier unnoticed."""
    config, items = request.config, request.session.items
    is_whole = takes_all(config) and not config.pluginmanager.has_plugin(REST)
    if not is_whole or (seeds.TEXT, seeds.TURN) != ("0", "0"):
        pytest.skip("only `make test` and `make tiers` as they stand have the whole first tier")
    there = {name for item in items for name in (item.nodeid, function_of(item.nodeid))}
    assert sorted(read_plan().first.keys() - there) == [], "run make tiers ARGS=MODULE"


def test_tier_comes_from_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INORDER_TIER", "first")
    assert get_tier() == "first"
    monkeypatch.setenv("INORDER_TIER", "")
    assert get_tier() is None


def test_plan_is_read_back() -> None:
    case = 't.py::test_a[x "y" \\n = ]'
    plan = Plan({case: 0.25, "t.py::test_b": 0.001}, {"t.py::test_a": 7.5})
    assert parse(write(plan)) == plan
    assert write(read_plan()) == PLAN.read_text(encoding="utf-8")


RUN = [
    Measured("t.py::test_unit[a]", 0.01, frozenset()),
    Measured("t.py::test_unit[b]", 0.08, frozenset()),
    Measured("t.py::test_law[a]", 0.01, frozenset()),
    Measured("t.py::test_law[b]", 2.0, frozenset()),
    Measured("t.py::test_law[c]", 1.5, frozenset()),
    Measured("t.py::test_law[d]", 0.5, frozenset()),
    Measured("t.py::test_short[a]", 0.4, frozenset()),
    Measured("t.py::test_short[b]", 0.3, frozenset()),
    Measured("t.py::test_topic", 0.01, frozenset({"kafka"})),
    Measured("t.py::test_kill[a]", 9.0, frozenset({"kafka"})),
    Measured("t.py::test_kill[b]", 9.0, frozenset({"kafka"})),
]
BEFORE = Plan({"t.py::test_law[d]": 0.6, "u.py::test_other": 0.1}, {"t.py::test_topic": 3.0})
FAULTS = {
    "1": ["t.py::test_law[b]"],
    "2": ["t.py::test_law[b]", "t.py::test_law[c]"],
    "3": ["t.py::test_law[d]", "t.py::test_unit[a]"],
    "4": ["t.py::test_nowhere"],
}
QUICK = {
    "t.py::test_unit": 0.09,
    "t.py::test_law[a]": 0.01,
    "t.py::test_short[b]": 0.3,
    "t.py::test_kill[b]": 9.0,
}


@pytest.mark.parametrize(
    ("faults", "chosen", "left_s"),
    [
        (FAULTS, {"t.py::test_law[b]": 2.0}, 2.0),
        ({}, {"t.py::test_law[d]": 0.5}, 3.5),
    ],
    ids=["what catches most a second", "what was chosen before"],
)
def test_first_tier_gets_quick_and_wanted(
    faults: dict[str, list[str]], chosen: dict[str, float], left_s: float
) -> None:
    """Tests that catch most faults per second are chosen as well. Without a file of faults, the
    earlier choice stays.
    """
    plan = choose(RUN, BEFORE, {"t.py::test_kill[b]"}, faults)
    assert plan.first == {**QUICK, **chosen, "u.py::test_other": 0.1}
    assert plan.rest == {
        "t.py::test_law": left_s,
        "t.py::test_short": 0.4,
        "t.py::test_topic": 0.01,
        "t.py::test_kill": 9.0,
    }


SOURCE = """
from hypothesis import given
from tests import seeds
from tests.seeds import seeds_of_today

SEEDS = seeds_of_today(2)
def helper(): return [*SEEDS]
@pytest.fixture
def world(): return helper()
@pytest.mark.parametrize("seed", SEEDS)
def test_by_parameter(seed): ...
def test_by_helper(): helper()
def test_by_module(): seeds.seeds_of_today(3)
def test_by_fixture(world): ...
def test_plain(): ...
@pytest.mark.chaos
def test_kills(): ...
@pytest.mark.parametrize("case", [pytest.param(1, marks=pytest.mark.chaos), 2])
def test_cases(case): ...
"""


def test_source_finds_seeded_tests(tmp_path: Path) -> None:
    path = tmp_path / "test_it.py"
    path.write_text(SOURCE)
    found = read_source(path)
    assert found.elsewhere == {"test_kills"}
    assert found.tests - find_seeded(path) == {"test_plain", "test_kills", "test_cases"}
    path.write_text("pytestmark = [pytest.mark.long]\ndef test_a(): ...\n")
    assert read_source(path.rename(tmp_path / "test_other.py")).elsewhere == {"test_a"}


def item(path: Path, name: str, *marks: str, hypothesis: bool = False) -> Any:
    return SimpleNamespace(
        nodeid=f"t.py::{name}",
        originalname=name.partition("[")[0],
        path=path,
        function=SimpleNamespace(is_hypothesis_test=hypothesis),
        get_closest_marker=lambda mark: mark if mark in marks else None,
    )


def test_tiers_share_only_seeded_tests(tmp_path: Path) -> None:
    path = tmp_path / "test_it.py"
    path.write_text(SOURCE)
    names = ["test_by_helper", "test_plain", "test_case[a]", "test_case[b]", "test_new"]
    items = [item(path, name) for name in names]
    items += [item(path, "test_turns", "in_turns"), item(path, "test_drawn", hypothesis=True)]
    firsts = ["test_by_helper", "test_plain", "test_case[a]", "test_turns", "test_drawn"]
    plan = Plan(dict.fromkeys((f"t.py::{name}" for name in firsts), 0.1), {})
    first, rest = Selection(FIRST, plan), Selection(REST, plan)
    assert [each.originalname for each in items if first.has(each)] == [
        *("test_by_helper", "test_plain", "test_case", "test_turns", "test_drawn")
    ]
    assert [each.nodeid.partition("::")[2] for each in items if rest.has(each)] == [
        *("test_by_helper", "test_case[b]", "test_new", "test_turns", "test_drawn")
    ]


def report_of(test: str, outcome: str, *marks: str) -> pytest.TestReport:
    """Return the report of a test in a folder named kafka, as a worker sends it."""
    result = cast("Any", outcome)
    report: pytest.TestReport = pytest.TestReport(
        test, ("", 0, ""), {"kafka": 1}, result, None, "call", duration=0.5
    )
    own = [getattr(pytest.mark, name).mark for name in marks]
    hook = Marker().pytest_runtest_makereport(Mock(iter_markers=lambda: own))
    next(hook)
    with pytest.raises(StopIteration):
        hook.send(report)
    return report


def test_recorder_keeps_service_marks(tmp_path: Path) -> None:
    """Skipped tests, other marks and the names of folders are left out."""
    recorder = Recorder(tmp_path / "build/seconds")
    for report in (
        report_of("a", "passed", "redis", "slow"),
        report_of("b", "passed"),
        report_of("c", "skipped"),
    ):
        recorder.pytest_runtest_logreport(report)
    recorder.pytest_sessionfinish()
    assert [*read(tmp_path / "build/seconds")] == [
        Measured("a", 0.5, frozenset({"redis"})),
        Measured("b", 0.5, frozenset()),
    ]
