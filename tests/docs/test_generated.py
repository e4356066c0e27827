"""Example: the pages that are made from code are what the code makes."""

from __future__ import annotations

import importlib.util

import pytest

from tests import ROOT

_SPEC = importlib.util.spec_from_file_location("generate", ROOT / "docs/generate.py")
assert _SPEC is not None
assert _SPEC.loader is not None
generate = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(generate)


@pytest.mark.parametrize("stem", generate.PAGES)
def test_a_page_is_up_to_date(stem: str) -> None:
    found = (generate.REFERENCE / f"{stem}.md").read_text(encoding="utf-8")
    assert found == generate.PAGES[stem](), "run: make docs-reference"
