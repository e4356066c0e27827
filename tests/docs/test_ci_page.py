"""Example: the test that docs/guides/test_in_ci.md shows passes as it stands."""

from __future__ import annotations

import re

from tests import ROOT

PAGE = (ROOT / "docs/guides/test_in_ci.md").read_text(encoding="utf-8")


def test_the_test_of_the_page_passes() -> None:
    (shown,) = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    exec(compile(shown, "test_in_ci.md", "exec"), {})
