"""Law: modules and methods that a docstring names are there."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from functools import cache

import pytest

from inorder.__main__ import ROOMS
from tests import ROOT
from tests.kit.prose import docstrings

NAMED_MODULE = re.compile(rf"`((?:{'|'.join(sorted(ROOMS))})(?:\.\w+)+)`")
NAMED_METHOD = re.compile(r"`([A-Z]\w+)\.(\w+)`")
OF_TOPICS = frozenset({"inorder.producers", "inorder.out.events", "inorder.zip"})
"""Names of topics, tables and files, which look like modules."""


@cache
def methods_by_class() -> dict[str, set[str]]:
    """Return the names in the bodies of all classes of a name; bases may have more."""
    found = defaultdict[str, set[str]](set)
    for room in sorted(ROOMS):
        for file in sorted((ROOT / room).rglob("*.py")):
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ClassDef):
                    found[node.name] |= {*re.findall(r"\w+", ast.unparse(node))}
    return found


def is_there(name: str) -> bool:
    """Return whether the parts of a name are folders, then a module, then names in its text."""
    place, rest = ROOT, name.split(".")
    while rest and (place / rest[0]).is_dir():
        place /= rest.pop(0)
    if not rest:
        return True
    file = place / f"{rest[0]}.py"
    if file.is_file():
        rest.pop(0)
    else:
        file = place / "__init__.py"
    return file.is_file() and {*rest} <= {*re.findall(r"\w+", file.read_text(encoding="utf-8"))}


@pytest.mark.parametrize("room", sorted(ROOMS))
def test_named_modules_exist(room: str) -> None:
    lost = {
        f"{file.relative_to(ROOT)}: {name}"
        for file in sorted((ROOT / room).rglob("*.py"))
        for text in docstrings(file.read_text(encoding="utf-8"))
        for name in NAMED_MODULE.findall(text)
        if name not in OF_TOPICS and not is_there(name)
    }
    assert lost == set()


@pytest.mark.parametrize("room", sorted(ROOMS))
def test_named_methods_exist(room: str) -> None:
    lost = {
        f"{file.relative_to(ROOT)}: {name}.{method}"
        for file in sorted((ROOT / room).rglob("*.py"))
        for text in docstrings(file.read_text(encoding="utf-8"))
        for name, method in NAMED_METHOD.findall(text)
        if name in methods_by_class() and method not in methods_by_class()[name]
    }
    assert lost == set()


def test_lost_names_are_found() -> None:
    assert is_there("topology.base.event.Event")
    assert not is_there("topology.model.event")
    assert not is_there("topology.base.event.Happening")
    assert "read" in methods_by_class()["Inlet"]
