"""Collect the cases of all operators for all laws, from the `CASES` lists in the modules
`cases*.py`.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from tests.laws.cases import Case

_MODULES = sorted(file.stem for file in Path(__file__).parent.glob("cases*.py"))
ALL: tuple[Case, ...] = tuple(
    case for name in _MODULES for case in import_module(f"tests.laws.{name}").CASES
)
