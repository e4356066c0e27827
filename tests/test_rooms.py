"""Law: no package has more lines of code than `[tool.inorder.room]` in pyproject.toml allows.

Figures are multiples of 100. A commit that makes a package smaller lowers its figure. One that
raises a figure gives the reason in its message.
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
SLACK = 100
"""Lines by which a figure may exceed its package before it must be lowered."""


@pytest.mark.parametrize("room", ROOMS)
def test_package_keeps_to_its_figure(room: str) -> None:
    most, lines = ROOMS[room], code_lines.of_room(ROOT / room)
    assert lines <= most, f"{room} has {lines} lines of code: delete some, or raise its figure"
    assert lines >= most - SLACK, f"{room} has {lines} lines of code: lower its figure"


def test_each_package_has_a_figure() -> None:
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    assert packages | {"topology/queries/pattern", "docs", "setup.py"} == {*ROOMS}
