"""Example: the generated pages are what the code generates."""

from __future__ import annotations

import runpy

import pytest

from tests import ROOT

GENERATE = runpy.run_path(str(ROOT / "docs/generate.py"))


@pytest.mark.parametrize("stem", GENERATE["PAGES"])
def test_page_is_up_to_date(stem: str) -> None:
    found = (GENERATE["REFERENCE"] / f"{stem}.md").read_text(encoding="utf-8")
    assert found == GENERATE["PAGES"][stem](), "run: make docs-reference"
