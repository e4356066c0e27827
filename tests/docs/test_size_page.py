"""Examples: the script of docs/operate/size.md measures what it says."""

from __future__ import annotations

import re
import runpy

import pytest

from tests import ROOT


def test_the_script_of_the_page_measures(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(ROOT / "docs/examples/size.py"))["main"](50, 5)
    said = capsys.readouterr().out
    assert re.fullmatch(r"-?[\d.]+ MB, [\d.]+ us an event, \d+ buffered\n", said), said
