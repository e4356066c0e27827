"""Examples: modules in the list of compiled ones exist, and can be compiled alone.

A compiled class with a base in Python looks up each attribute as Python does. A class in Python
whose base is compiled is refused at import, unless that base allows it. Only a build that takes
minutes would show either, so both are checked here from the sources.
"""

from __future__ import annotations

import ast
import inspect
import pkgutil
import runpy
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import agents
import benchmarks.published
import codec
import inorder
import topology
from tests import ROOT

RECIPE: dict[str, Any] = runpy.run_path(str(ROOT / "setup.py"), run_name="recipe")
COMPILED = frozenset(name.removesuffix(".py").replace("/", ".") for name in RECIPE["hot_modules"]())
ROOMS = (topology, codec, inorder, agents, benchmarks.published)
"""Packages that a stage runs, and the methods that it may be given."""

ALLOWS = "allow_interpreted_subclasses"


def modules(room: ModuleType) -> Iterator[ModuleType]:
    for found in pkgutil.walk_packages(room.__path__, f"{room.__name__}."):
        if not found.name.endswith("__main__"):
            yield import_module(found.name)


def classes_that_allow(module: str) -> set[str]:
    """Return the classes of a compiled module that code in Python may extend."""
    tree = ast.parse((ROOT / f"{module.replace('.', '/')}.py").read_text(encoding="utf-8"))
    return {
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        and any(ALLOWS in ast.unparse(d) for d in node.decorator_list)
    }


@pytest.fixture(scope="module")
def pairs() -> list[tuple[type, type]]:
    """Return each class with each base of it that our packages define."""
    ours = tuple(f"{room.__name__}." for room in ROOMS)
    return [
        (each, base)
        for room in ROOMS
        for module in modules(room)
        for _, each in inspect.getmembers(module, inspect.isclass)
        if each.__module__ == module.__name__
        for base in each.__bases__
        if base.__module__.startswith(ours)
    ]


def test_listed_modules_exist_once() -> None:
    rooms, shell = RECIPE["HOT_ROOMS"], RECIPE["HOT_SHELL"]
    assert [room for room in rooms if not (ROOT / "topology" / room / "__init__.py").exists()] == []
    assert [name for name in shell if not (ROOT / name).is_file()] == []
    others = RECIPE["OTHER_ROOMS"]
    assert [room for room in others if not (ROOT / "topology" / room).exists()] == []
    assert set(others).isdisjoint(rooms)
    assert list(rooms) == sorted(set(rooms))
    assert list(shell) == sorted(set(shell))
    files = {Path(name).name for name in RECIPE["hot_modules"]()}
    assert files.isdisjoint(RECIPE["INTERPRETED"])


def test_compiled_class_has_no_python_base(pairs: list[tuple[type, type]]) -> None:
    found = [
        f"{each.__module__}.{each.__name__} extends {base.__module__}.{base.__name__}"
        for each, base in pairs
        if each.__module__ in COMPILED and base.__module__ not in COMPILED
    ]
    assert found == []


def test_extended_classes_allow_it(
    pairs: list[tuple[type, type]],
) -> None:
    across = [
        (each, base)
        for each, base in pairs
        if each.__module__ not in COMPILED and base.__module__ in COMPILED
    ]
    assert across, "patterns and joins extend operators"
    found = [
        f"{each.__module__}.{each.__name__} extends {base.__module__}.{base.__name__}"
        for each, base in across
        if base.__name__ not in classes_that_allow(base.__module__)
    ]
    assert found == []
