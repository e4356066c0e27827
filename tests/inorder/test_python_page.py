"""Examples: the Python of docs/python.md, run as it stands there, prints what the page shows."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "python.md"
SHOWN = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", PAGE.read_text(), re.S)


def test_every_example_shows_what_it_prints() -> None:
    assert len(SHOWN) == PAGE.read_text().count("```python\n") > 0


@pytest.mark.parametrize(("code", "printed"), SHOWN, ids=range(len(SHOWN)))
def test_an_example_prints_what_the_page_shows(code: str, printed: str) -> None:
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(compile(code, str(PAGE), "exec"), {})
    assert said.getvalue() == printed
