"""Law of the house: no room has more lines of code than `[tool.inorder.room]` in pyproject.toml.

A commit that makes a room smaller lowers its figure. One that raises a figure writes the reason
beside it.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from tests.kit import code_lines

ROOT = Path(__file__).parents[1]
ROOMS: dict[str, int] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["inorder"][
    "room"
]
PRODUCT = (
    "topology",
    "agents",
    "inorder",
    "producers",
    "recordings",
    "sinks",
    "spark_analytics",
    "cli",
    "codec",
    "infra",
)
SLACK = 20
"""A figure that lies so many lines further above its room has not been lowered."""


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_keeps_to_its_figure(room: str) -> None:
    most, lines = ROOMS[room], code_lines.of_room(ROOT / room)
    assert lines <= most, f"{room} has {lines} lines of code: delete some, or raise its figure"
    assert lines >= most - SLACK, f"{room} has {lines} lines of code: lower its figure"


def test_each_room_of_the_product_has_a_figure() -> None:
    others = {"topology/pattern", "benchmarks", "docs", "tests", "setup.py"}
    assert {*PRODUCT, *others} == {*ROOMS}


def test_comments_and_docstrings_are_not_counted(tmp_path: Path) -> None:
    text = '"""A module."""\n\n# A comment.\nx = """a\n\nb"""\n\n\ndef f():\n    """Nothing."""\n'
    module = tmp_path / "module.py"
    module.write_text(text)
    assert code_lines.of_module(module) == 4
    cython = tmp_path / "module.pyx"
    cython.write_text("# A comment.\n\ncdef int x = 1\n")
    assert code_lines.of_room(tmp_path) == 5
