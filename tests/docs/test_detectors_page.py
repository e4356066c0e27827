"""Examples: the Python of docs/guides/detectors.md, as it stands, finds what the page shows."""

from __future__ import annotations

import re
from pathlib import Path

from tests import ROOT
from tests.cli.invoking import inorder

PAGE = (ROOT / "docs" / "guides" / "detectors.md").read_text("utf-8")
(CODE,) = re.findall(r"^```python\n(.*?)^```", PAGE, re.M | re.S)
EXAMPLES = ROOT / "docs" / "examples"


def test_the_detector_of_the_page_is_that_of_the_example(tmp_path: Path) -> None:
    (tmp_path / "detectors.py").write_text(CODE)
    (tmp_path / "detector.yaml").write_bytes((EXAMPLES / "detector.yaml").read_bytes())
    events = str(EXAMPLES / "detector.jsonl")
    found, wanted = (
        inorder("replay", "--topology", str(folder / "detector.yaml"), "--show", "match", events)
        for folder in (tmp_path, EXAMPLES)
    )
    assert found.code == 0, found.err
    assert found.lines == wanted.lines != []
