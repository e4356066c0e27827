"""Examples: `make answers` finds the fault in each altered copy of the tree."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.answers.__main__ import differences, running, unanswered
from tests.answers.cases import ROOT, Case, written

PACKAGES = ("agents", "benchmarks", "cli", "codec", "inorder", "producers", "recordings")
SEED = 1
MOST_S = 300


class Fault(NamedTuple):
    """An edit of the tree, and the case that detects it."""

    path: str
    right: str
    wrong: str
    case: str


FAULTS = {
    "what is just at the floor is late": Fault(
        "order/merge/passage.py",
        "if ref_ns >= self.floor_ns and not",
        "if ref_ns > self.floor_ns and not",
        "stream, coarse stamps",
    ),
    "integers are averaged as integers": Fault(
        "queries/pattern/compile/values.py",
        "    return a / b\n",
        "    return a // b\n",
        "pattern, next",
    ),
    "a window counted by events is one too long": Fault(
        "queries/window/counted.py",
        "return (self.folded + len(self.kept)) // self.size",
        "return (self.folded + len(self.kept) - 1) // self.size",
        "query, counted",
    ),
    "a clock is placed at the end of its bin": Fault(
        "order/clock/one_way.py",
        "self._bin_start_ns + BIN_NS // 2",
        "self._bin_start_ns + BIN_NS",
        "recorded, jr_umts",
    ),
    "a restart forgets what was emitted": Fault(
        "queries/window/counted.py",
        "        current=dict_of(INT, CURRENT),\n",
        "",
        "query, counted",
    ),
}


def answers(tree: Path, cases: Sequence[Case], folder: Path) -> Path:
    """Write a tree's answers into a new folder, and return the folder."""
    asked = folder.with_suffix(".json")
    asked.write_text(json.dumps([case.as_json() for case in cases]))
    assert running(tree, asked, folder).wait(MOST_S) == 0
    return folder


def plant_fault(fault: Fault, folder: Path) -> Path:
    """Make a copy of this tree with the fault, and return its folder."""
    for package in PACKAGES:
        (folder / package).symlink_to(ROOT / package)
    ignored = shutil.ignore_patterns("__pycache__", "*.so")
    shutil.copytree(ROOT / "topology", folder / "topology", ignore=ignored)
    path = folder / "topology" / fault.path
    text = path.read_text()
    assert text.count(fault.right) == 1, f"{fault.path} has changed; plant another fault"
    path.write_text(text.replace(fault.right, fault.wrong))
    return folder


@pytest.mark.in_turns(5)
@pytest.mark.parametrize("name", FAULTS)
def test_planted_fault_is_found(name: str, tmp_path: Path) -> None:
    fault = FAULTS[name]
    for each in ("files", "tree"):
        (tmp_path / each).mkdir()
    cases = [case for case in written(tmp_path / "files", SEED) if case.name == fault.case]
    assert cases
    right = answers(ROOT, cases, tmp_path / "right")
    wrong = answers(plant_fault(fault, tmp_path / "tree"), cases, tmp_path / "wrong")
    found = list(differences(cases, right, wrong))
    assert [each.case for each in found] == [fault.case]
    assert not list(differences(cases, right, right))


def test_failed_case_is_named(tmp_path: Path) -> None:
    topology = tmp_path / "one.yaml"
    topology.write_text("queries: {asked: {window: tumbling 1s, aggregate: {n: count()}}}")
    case = Case("one", "replay", (), "", str(topology))
    event, result, balance = '{"kind":"event"}', '{"kind":"window","query":"asked"}', "Balance()"
    for lines, is_whole in (
        ((event, result, "exit 0", balance), True),
        ((event, "exit 0", balance), False),
        ((event, result, "exit 2", balance), False),
        ((event, result, "exit 0", "in pieces", "KeyError('a')"), False),
        (("exit 0", balance), False),
    ):
        (tmp_path / "0.txt").write_text("\n".join(lines))
        assert unanswered([case], tmp_path) == ([] if is_whole else ["one"])
    for lines, is_whole in (((result, "exit 0"), True), ((event, "exit 0"), False)):
        assert Case("a match", "match", (), "").answered(lines) == is_whole
