"""Laws of the threat page: each answer names a test that exists."""

from __future__ import annotations

import re

import pytest

from tests import ROOT

TEXT = (ROOT / "docs/operate/threats.md").read_text(encoding="utf-8")
ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in TEXT.splitlines()
    if line.startswith("| ") and not line.startswith(("| ---", "| threat"))
]
TEST = re.compile(r"`(?P<path>tests/[\w/]+\.py)(?:::(?P<name>test_\w+))?`")


def test_rows_of_threats_are_complete() -> None:
    assert len(ROWS) >= 15
    assert all(len(row) == 3 for row in ROWS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0][:40])
def test_law_answers_name_tests(row: list[str]) -> None:
    named = list(TEST.finditer(row[2]))
    assert named
    assert TEST.sub("", row[2]).strip(" ,") == ""
    for test in named:
        text = (ROOT / test["path"]).read_text(encoding="utf-8")
        assert f"def {test['name'] or 'test_'}" in text, test[0]
